"""``forkline roles``, ``invitations`` and ``tokens``: who may do what, and why."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli import LOCATION, NUMBER_FROM_ONE, Output, Subcommand, minute_of
from viewer.cli.finding import listed_location
from viewer.cli.options import pair_of, parsed
from viewer.launching.options import parse_limit
from viewer.models import ApiToken, Invitation, Level, Team
from viewer.presentation.jobs.status import team_usage
from viewer.records import accounts
from viewer.records.accounts import REASONS, end_sessions, remove_second_factors, send_waiting, set_active
from viewer.records.limits import QUOTAS, used_by_team
from viewer.records.locations import location_named
from viewer.records.permissions import (
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
from viewer.validation import NAME, PAIR, OptionType, number_option, one_line, one_line_text

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
    _add_location_argument(parser)


def _add_location_argument(parser: CommandParser) -> None:
    help_text = _("The location of the role (default: all locations, also those added later).")
    parser.add_argument("--location", type=LOCATION, metavar="LOCATION", help=help_text)


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
    lines = list(_lines(roles)) or [_("Nobody has a role.")]
    return Output(document, [*lines, *_quota_lines(teams)])


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
    location = listed_location(options["location"]) if options["location"] else None
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


def _add_invitations_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--role", choices=tuple(LEVELS), type=NAME, help=_("Make an invitation that gives this role.")
    )
    parser.add_argument(
        "--team", type=NAME, metavar="TEAM", help=_("Make an invitation that adds a person to this team.")
    )
    _add_location_argument(parser)
    parser.add_argument(
        "--days",
        type=int,
        choices=sorted(accounts.INVITATION_DAYS),
        default=accounts.INVITATION_DAYS[0],
        help=_("Days after which the link expires (default: %(days)d).")
        % {"days": accounts.INVITATION_DAYS[0]},
    )
    parser.add_argument(
        "--revoke", type=NUMBER_FROM_ONE, metavar="ID", help=_("Revoke the invitation with this ID.")
    )


def _handle_invitations(options: Mapping[str, Any]) -> Output:
    """The new invitation, the revoked one, or all. Raises CommandError."""
    is_new = options["role"] or options["team"] or options["location"]
    if options["revoke"] and is_new:
        raise CommandError(_("--revoke needs no other option."))
    if is_new:
        return _invitation_made(options)
    rows = Invitation.objects.select_related("team", "location", "made_by", "used_by")
    if not options["revoke"]:
        found = [_invitation_document(one) for one in rows]
        return Output({"invitations": found}, list(_invitation_lines(found)))
    invitation = rows.filter(pk=options["revoke"]).first()
    if invitation is None:
        raise CommandError(_("There is no invitation %d.") % options["revoke"])
    if not accounts.revoke_invitation(invitation):
        raise CommandError(_("This invitation was already used or revoked."))
    invitation.refresh_from_db()
    return Output(_invitation_document(invitation), [_("Revoked: %s") % invitation])


def _invitation_made(options: Mapping[str, Any]) -> Output:
    team = Team.objects.filter(name=options["team"]).first() if options["team"] else None
    if options["team"] and team is None:
        raise CommandError(_("There is no team %s.") % one_line(options["team"]))
    level: Level | None = LEVELS[options["role"]] if options["role"] else None
    location = listed_location(options["location"]) if options["location"] else None
    try:
        invitation, token = accounts.invite(
            None, level=level, location=location, team=team, days=options["days"]
        )
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from None
    address = f"{settings.ALLOWED_ORIGINS[0]}{reverse('invitation', args=[token])}"
    until = _("It is shown once. Expires: %s") % invitation.expires_at.isoformat()
    return Output({**_invitation_document(invitation), "address": address}, [str(invitation), address, until])


def _invitation_document(invitation: Invitation) -> dict[str, Any]:
    used_by, made_by = invitation.used_by, invitation.made_by
    return {
        "id": invitation.pk,
        "state": str(accounts.invitation_state(invitation)),
        "role": Level(invitation.level).name.lower() if invitation.level else None,
        "location": invitation.location.path if invitation.location else None,
        "team": invitation.team.name if invitation.team else None,
        "made_by": made_by.get_username() if made_by else None,
        "created_at": invitation.created_at.isoformat(),
        "expires_at": invitation.expires_at.isoformat(),
        "used_by": used_by.get_username() if used_by else None,
        "gives": str(invitation),
    }


def _invitation_lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in found:
        line = _("%(id)d  %(state)s  until %(until)s  %(gives)s")
        yield line % {**one, "until": minute_of(one["expires_at"])}
    if not found:
        yield _("There are no invitations.")


INVITATIONS = Subcommand(
    gettext_lazy("List invitations, make one that gives a role, a team or both, or revoke one."),
    _add_invitations_arguments,
    _handle_invitations,
)


MAX_TOKEN_DAYS = 3_650
TOKEN_NAME = OptionType("text", lambda text: one_line_text(text, 100))


def _add_tokens_arguments(parser: CommandParser) -> None:
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--new", type=TOKEN_NAME, metavar="NAME", help=_("Make a token of this name, and print it.")
    )
    change.add_argument(
        "--revoke", type=number_option(1, 10**15), metavar="ID", help=_("Revoke the token with this ID.")
    )
    parser.add_argument("--person", type=NAME, metavar="NAME", help=_("For whom the token acts."))
    parser.add_argument(
        "--role", choices=tuple(LEVELS), default="viewer", help=_("What it may do at most (default: viewer).")
    )
    parser.add_argument(
        "--location",
        type=LOCATION,
        action="append",
        default=[],
        metavar="LOCATION",
        help=_("Only at this location (default: all that the person sees). Can be repeated."),
    )
    parser.add_argument(
        "--days",
        type=number_option(1, MAX_TOKEN_DAYS),
        default=accounts.TOKEN_DAYS[0],
        metavar="N",
        help=_("After how many days it expires (default: %(days)s).") % {"days": accounts.TOKEN_DAYS[0]},
    )


def _handle_tokens(options: Mapping[str, Any]) -> Output:
    """Every token, or the one that was made. Raises CommandError."""
    if options["new"] is not None:
        token, text = _token_made(options)
        lines = [text, _("Copy the token now: it is not stored, so it cannot be shown again.")]
        return Output({**_token_document(token), "token": text}, lines)
    for name in ("person", "location"):
        if options[name]:
            raise CommandError(_("%(name)s needs %(missing)s.") % {"name": f"--{name}", "missing": "--new"})
    if options["revoke"] is not None:
        found = ApiToken.objects.filter(pk=options["revoke"]).first()
        if found is None or not accounts.revoke_token(found):
            raise CommandError(_("There is no token %s that works.") % options["revoke"])
    rows = list(ApiToken.objects.select_related("user").prefetch_related("locations"))
    lines = list(_token_lines(rows)) or [_("No tokens.")]
    return Output({"tokens": [_token_document(token) for token in rows]}, lines)


def _token_made(options: Mapping[str, Any]) -> tuple[ApiToken, str]:
    user = User.objects.filter(username=options["person"] or "", is_active=True).first()
    if user is None:
        raise CommandError(_("Name the account for which the token acts: --person NAME"))
    try:
        locations = [location_named(one) for one in options["location"]] or None
        level = LEVELS[options["role"]]
        return accounts.make_token(user, options["new"], level, locations, days=options["days"])
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from None
    except accounts.TokenRefused:
        values = {"person": one_line(user.get_username()), "role": options["role"]}
        raise CommandError(_("%(person)s does not have the role %(role)s there.") % values) from None


def _token_document(token: ApiToken) -> dict[str, Any]:
    return {
        "id": token.pk,
        "name": token.name,
        "person": token.user.get_username(),
        "role": Level(token.level).name.lower(),
        "locations": None if token.is_everywhere else [one.path for one in token.locations.all()],
        "works": token.works,
        "created_at": token.created_at.isoformat(),
        "expires_at": token.expires_at.isoformat(),
        "revoked_at": token.revoked_at.isoformat() if token.revoked_at else None,
        "last_used_at": token.last_used_at.isoformat() if token.last_used_at else None,
    }


def _token_lines(rows: list[ApiToken]) -> Iterator[str]:
    for token in rows:
        places = ", ".join(one.path for one in token.locations.all())
        if token.is_everywhere:
            places = _("all locations")
        state = _("works") if token.works else _("does not work")
        parts = [token.pk, token.name, token.user.get_username(), token.get_level_display(), places or "-"]
        yield "  ".join(map(str, [*parts, state, token.expires_at.isoformat(timespec="minutes")]))


TOKENS = Subcommand(
    gettext_lazy("List, make and revoke API tokens, with which programs use the HTTP interface."),
    _add_tokens_arguments,
    _handle_tokens,
)
