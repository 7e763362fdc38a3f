"""``forkline tokens``: API tokens, with which programs use the HTTP interface as a person."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.output import Output, Subcommand
from viewer.cli.parsing import LOCATION
from viewer.models import ApiToken, Level
from viewer.records.locations import location_named
from viewer.records.tokens import EXPIRY_DAYS, TokenRefused, make_token, revoke_token
from viewer.validation import NAME, OptionType, number_option, one_line, one_line_text

LEVELS = {level.name.lower(): level for level in Level}
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
        default=EXPIRY_DAYS[0],
        metavar="N",
        help=_("After how many days it expires (default: %(days)s).") % {"days": EXPIRY_DAYS[0]},
    )


def _handle_tokens(options: Mapping[str, Any]) -> Output:
    """Every token, or the one that was made. Raises CommandError."""
    if options["new"] is not None:
        token, text = _made(options)
        lines = [text, _("Copy the token now: it is not stored, so it cannot be shown again.")]
        return Output({**_document(token), "token": text}, lines)
    for name in ("person", "location"):
        if options[name]:
            raise CommandError(_("%(name)s needs %(missing)s.") % {"name": f"--{name}", "missing": "--new"})
    if options["revoke"] is not None:
        found = ApiToken.objects.filter(pk=options["revoke"]).first()
        if found is None or not revoke_token(found):
            raise CommandError(_("There is no token %s that works.") % options["revoke"])
    tokens = list(ApiToken.objects.select_related("user").prefetch_related("locations"))
    lines = list(_lines(tokens)) or [_("No tokens.")]
    return Output({"tokens": [_document(token) for token in tokens]}, lines)


def _made(options: Mapping[str, Any]) -> tuple[ApiToken, str]:
    user = User.objects.filter(username=options["person"] or "", is_active=True).first()
    if user is None:
        raise CommandError(_("Name the account for which the token acts: --person NAME"))
    try:
        locations = [location_named(one) for one in options["location"]] or None
        level = LEVELS[options["role"]]
        return make_token(user, options["new"], level, locations, days=options["days"])
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from None
    except TokenRefused:
        values = {"person": one_line(user.get_username()), "role": options["role"]}
        raise CommandError(_("%(person)s does not have the role %(role)s there.") % values) from None


def _document(token: ApiToken) -> dict[str, Any]:
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


def _lines(tokens: list[ApiToken]) -> Iterator[str]:
    for token in tokens:
        places = (
            _("all locations")
            if token.is_everywhere
            else ", ".join(one.path for one in token.locations.all())
        )
        state = _("works") if token.works else _("does not work")
        parts = [token.pk, token.name, token.user.get_username(), token.get_level_display(), places or "-"]
        yield "  ".join(map(str, [*parts, state, token.expires_at.isoformat(timespec="minutes")]))


TOKENS = Subcommand(
    gettext_lazy("List, make and revoke API tokens, with which programs use the HTTP interface."),
    _add_tokens_arguments,
    _handle_tokens,
)
