"""``forkline roles``: who may do what, and why."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import pair_of, parsed
from viewer.cli.finding import location_elsewhere, typed_path
from viewer.cli.output import Output, Subcommand
from viewer.cli.parsing import LOCATION
from viewer.launching.options import parse_limit
from viewer.models import Level, Location, Team
from viewer.presentation.jobs.status import team_usage
from viewer.records.accounts import REASONS, remove_second_factors, set_active
from viewer.records.limits import QUOTAS, used_by_team
from viewer.records.mail import send_waiting
from viewer.records.roles import (
    HeldRole,
    Holder,
    account_named,
    add_member,
    delete_team,
    give,
    held_roles,
    remove_member,
    set_quotas,
    take,
    team_named,
)
from viewer.records.sessions import end_sessions
from viewer.stores.addresses import name_in
from viewer.validation import NAME, PAIR, one_line

LEVELS = {level.name.lower(): level for level in Level}


def _add_roles_arguments(parser: CommandParser) -> None:
    holder = parser.add_mutually_exclusive_group()
    holder.add_argument("--person", type=NAME, metavar="NAME", help=_("The person, created if new."))
    holder.add_argument("--team", type=NAME, metavar="TEAM", help=_("The team, created if new."))
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--give", choices=tuple(LEVELS), type=NAME, help=_("Give this role."))
    change.add_argument("--take", action="store_true", help=_("Take the role."))
    change.add_argument(
        "--add", type=NAME, metavar="NAME", help=_("Add this person, created if new, to the team.")
    )
    change.add_argument("--remove", type=NAME, metavar="NAME", help=_("Remove this person from the team."))
    change.add_argument("--end-sessions", action="store_true", help=_("End all sessions of the person."))
    change.add_argument(
        "--remove-second-factors",
        choices=tuple(REASONS),
        type=NAME,
        metavar="REASON",
        help=_("Remove all second factors of the person, who has lost them: %(reasons)s.")
        % {"reasons": ", ".join(REASONS)},
    )
    change.add_argument("--deactivate", action="store_true", help=_("Let the person no longer log in."))
    change.add_argument("--activate", action="store_true", help=_("Let the person log in again."))
    change.add_argument("--delete", action="store_true", help=_("Delete the team with its roles."))
    change.add_argument(
        "--quota",
        type=PAIR,
        action="append",
        metavar="MEASURE=NUMBER",
        help=_(
            "What the team's jobs may use together: runs (at once), tokens or cost (US dollars), both a day. "
            "Empty for no quota: runs="
        ),
    )
    parser.add_argument(
        "--location",
        type=LOCATION,
        metavar="LOCATION",
        help=_("The location of the role (default: all locations, also those added later)."),
    )


def _handle_roles(options: Mapping[str, Any]) -> Output:
    """Every role that a person has, after the change. Raises CommandError."""
    try:
        # A refused change creates no account and no team.
        with transaction.atomic():
            _change(options)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from None
    roles, teams = list(held_roles()), list(Team.objects.prefetch_related("members"))
    document = {"roles": [_document(role) for role in roles], "teams": list(map(_team_document, teams))}
    return Output(document, [*_lines(roles), *_quota_lines(teams)])


def _change(options: Mapping[str, Any]) -> None:
    changes_role = options["give"] or options["take"]
    changes_team = options["add"] or options["remove"] or options["delete"] or options["quota"]
    if changes_team and not options["team"]:
        raise CommandError(_("Name the team: --team TEAM"))
    if changes_role and not (options["team"] or options["person"]):
        raise CommandError(_("Name who has the role: --person NAME or --team TEAM"))
    if any(options[name] for name in ("end_sessions", "remove_second_factors", "deactivate", "activate")):
        _change_account(options)
    if options["location"] and not changes_role:
        raise CommandError(_("--location needs --give or --take."))
    if changes_role:
        _change_role(options)
    elif changes_team:
        _change_team(options)


def _change_role(options: Mapping[str, Any]) -> None:
    location = role_location(options["location"]) if options["location"] else None
    holder: Holder = team_named(options["team"]) if options["team"] else account_named(options["person"])
    if options["give"]:
        give(holder, LEVELS[options["give"]], location)
    elif not take(holder, location):
        raise CommandError(_("%s has no such role.") % holder)


def _change_account(options: Mapping[str, Any]) -> None:
    person = User.objects.filter(username=options["person"] or "").first()
    if person is None:
        raise CommandError(_("Name a person who has an account: --person NAME"))
    if options["end_sessions"]:
        end_sessions(person)
    elif options["remove_second_factors"]:
        remove_second_factors(person, options["remove_second_factors"], None)
        send_waiting()
    else:
        set_active(person, None, is_active=options["activate"])


def _change_team(options: Mapping[str, Any]) -> None:
    if options["add"]:
        add_member(team_named(options["team"]), account_named(options["add"]))
        return
    team = Team.objects.filter(name=options["team"]).first()
    if team is None:
        raise CommandError(_("There is no team %s.") % one_line(options["team"]))
    if options["delete"]:
        delete_team(team)
        return
    if options["quota"]:
        set_quotas(team, _quotas(team, options["quota"]))
        return
    person = team.members.filter(username=options["remove"]).first()
    if person is None:
        raise CommandError(_("%s is not in this team.") % one_line(options["remove"]))
    remove_member(team, person)


def _quotas(team: Team, texts: Sequence[str]) -> dict[str, float]:
    """The quotas of the team with these changes. Raises CommandError."""
    quotas = dict(team.quotas)
    for text in texts:
        measure, number = pair_of(text, "--quota")
        if measure not in QUOTAS:
            raise CommandError(_("--quota takes one of: %s") % ", ".join(QUOTAS))
        quotas.pop(measure, None)
        if number:
            quotas[measure] = parsed("--quota", partial(parse_limit, measure), number)
    return quotas


def role_location(text: str) -> Location:
    """Return the location of a role that the argument names. Raises CommandError."""
    path = text if name_in(text) else str(typed_path(text).expanduser().resolve())
    location = location_elsewhere(text) or Location.objects.here().filter(path=path).first()
    if location is None:
        raise CommandError(_("%s is not a location.") % one_line(text))
    return location


def _document(role: HeldRole) -> dict[str, Any]:
    return {
        "person": role.person.get_username(),
        "level": role.level.name.lower(),
        "location": role.location.path if role.location else None,
        "team": role.team.name if role.team else None,
        "is_superuser": role.person.is_superuser,
    }


def _team_document(team: Team) -> dict[str, Any]:
    return {
        "name": team.name,
        "members": sorted(one.get_username() for one in team.members.all()),
        "quotas": team.quotas,
        "used": {measure: used_by_team(team, measure) for measure in QUOTAS if measure in team.quotas},
    }


def _quota_lines(teams: list[Team]) -> Iterator[str]:
    for team in teams:
        if used := team_usage(team):
            yield _("%(team)s: %(used)s") % {"team": team.name, "used": ", ".join(used)}


def _lines(roles: list[HeldRole]) -> Iterator[str]:
    for role in roles:
        line = _("%(person)s  %(level)s  %(where)s  (%(reason)s)")
        values = {"person": role.person.get_username(), "level": role.level.label}
        yield line % {**values, "where": role.where, "reason": role.reason}


ROLES = Subcommand(
    gettext_lazy("List who may do what, and why; give and take roles, and change teams."),
    _add_roles_arguments,
    _handle_roles,
)
