"""What a person accepts and answers before a start, from the arguments of a command.

The terminal runs no preflight check, which would double the time to the start. The run's own runner checks
the same before it runs anything, and refuses what was not accepted.
"""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.cli.arguments.edits import unit_named
from viewer.cli.arguments.values import PAIR
from viewer.engines import engine_of
from viewer.engines.protocol import Contents, kind_of
from viewer.launching.requests.requests import ACCEPT_ALL, Accepted


def add_accept_arguments(parser: CommandParser) -> None:
    """Add --accept-losses, --accept-effects, --accept-hidden and --match."""
    add_accept_losses_argument(parser)
    parser.add_argument(
        "--accept-effects",
        action="store_true",
        help=_("Accept the checkpoint's effects for the project."),
    )
    parser.add_argument(
        "--accept-hidden",
        action="store_true",
        help=_("Send the redacted parts of a pruned checkpoint's stored copy as they are."),
    )
    parser.add_argument(
        "--match",
        action="append",
        default=[],
        type=PAIR,
        metavar="SAVED=TASKNUMBER",
        help=_(
            "The project's task for a stored task without a certain match; - if it was removed. SAVED is its "
            "number from 1 or its id; for an agent, its id, followed by the project's role."
        ),
    )


def add_accept_losses_argument(parser: CommandParser) -> None:
    """Add --accept-losses."""
    parser.add_argument(
        "--accept-losses", action="store_true", help=_("Start even if components would be lost.")
    )


def accepted_in(options: Mapping[str, Any]) -> Accepted:
    """What is accepted: of each sort everything, or nothing."""
    return Accepted(
        redacted_parts=ACCEPT_ALL if options.get("accept_hidden") else "",
        losses=ACCEPT_ALL if options["accept_losses"] else "",
        effects=bool(options.get("accept_effects")),
    )


def answers_in(options: Mapping[str, Any], contents: Contents) -> dict[str, str]:
    """The matches, by the id of the saved task or agent. Raises CommandError."""
    answers = {}
    for text in options["match"]:
        saved, mark, chosen = text.partition("=")
        if not mark or not saved or not chosen:
            raise CommandError(_("--match needs SAVED=TASKNUMBER, not %s.") % text)
        answers[_saved_id(saved, contents)] = chosen
    return answers


def _saved_id(name: str, contents: Contents) -> str:
    """The id of the unit with this number; any other text is the id of a unit or an agent."""
    if not (name.isascii() and name.isdigit()):
        engine = engine_of(contents)
        if name not in {
            *(unit.id for unit in engine.units_of(contents)),
            *(one.id for one in contents.agents),
        }:
            unit = _(kind_of(engine, contents.kind).unit_label)
            message = _("This checkpoint has no %(unit)s or agent %(name)s.")
            raise CommandError(message % {"unit": unit, "name": name})
        return name
    return unit_named(contents, name)
