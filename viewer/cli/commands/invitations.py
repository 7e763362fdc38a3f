"""``forkline invitations``: links with which people create their accounts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.commands.roles import LEVELS, role_location
from viewer.cli.output import Output, Subcommand
from viewer.cli.parsing import LOCATION, NUMBER_FROM_ONE
from viewer.models import Invitation, Level, Team
from viewer.records.invitations import EXPIRY_DAYS, invite, revoke, state_of
from viewer.validation import NAME, one_line


def _add_invitations_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--role", choices=tuple(LEVELS), type=NAME, help=_("Make an invitation that gives this role.")
    )
    parser.add_argument(
        "--team", type=NAME, metavar="TEAM", help=_("Make an invitation that adds a person to this team.")
    )
    parser.add_argument(
        "--location",
        type=LOCATION,
        metavar="LOCATION",
        help=_("The location of the role (default: all locations, also those added later)."),
    )
    parser.add_argument(
        "--days",
        type=int,
        choices=sorted(EXPIRY_DAYS),
        default=EXPIRY_DAYS[0],
        help=_("Days after which the link expires (default: %(days)d).") % {"days": EXPIRY_DAYS[0]},
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
        return _made(options)
    rows = Invitation.objects.select_related("team", "location", "made_by", "used_by")
    if not options["revoke"]:
        found = [_document(one) for one in rows]
        return Output({"invitations": found}, list(_lines(found)))
    invitation = rows.filter(pk=options["revoke"]).first()
    if invitation is None:
        raise CommandError(_("There is no invitation %d.") % options["revoke"])
    if not revoke(invitation):
        raise CommandError(_("This invitation was already used or revoked."))
    invitation.refresh_from_db()
    return Output(_document(invitation), [_("Revoked: %s") % invitation])


def _made(options: Mapping[str, Any]) -> Output:
    team = Team.objects.filter(name=options["team"]).first() if options["team"] else None
    if options["team"] and team is None:
        raise CommandError(_("There is no team %s.") % one_line(options["team"]))
    level: Level | None = LEVELS[options["role"]] if options["role"] else None
    location = role_location(options["location"]) if options["location"] else None
    try:
        invitation, token = invite(None, level=level, location=location, team=team, days=options["days"])
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from None
    address = f"{settings.ALLOWED_ORIGINS[0]}{reverse('invitation', args=[token])}"
    until = _("It is shown once. Expires: %s") % invitation.expires_at.isoformat()
    return Output({**_document(invitation), "address": address}, [str(invitation), address, until])


def _document(invitation: Invitation) -> dict[str, Any]:
    used_by, made_by = invitation.used_by, invitation.made_by
    return {
        "id": invitation.pk,
        "state": str(state_of(invitation)),
        "role": Level(invitation.level).name.lower() if invitation.level else None,
        "location": invitation.location.path if invitation.location else None,
        "team": invitation.team.name if invitation.team else None,
        "made_by": made_by.get_username() if made_by else None,
        "created_at": invitation.created_at.isoformat(),
        "expires_at": invitation.expires_at.isoformat(),
        "used_by": used_by.get_username() if used_by else None,
        "gives": str(invitation),
    }


def _lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for one in found:
        line = _("%(id)d  %(state)s  until %(until)s  %(gives)s")
        yield line % {**one, "until": one["expires_at"][:16]}
    if not found:
        yield _("There are no invitations.")


INVITATIONS = Subcommand(
    gettext_lazy("List invitations, make one that gives a role, a team or both, or revoke one."),
    _add_invitations_arguments,
    _handle_invitations,
)
