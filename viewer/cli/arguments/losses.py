"""What a run would lose, and what it asks, from the terminal.

No look is made beforehand, which would double the time to the start: the run's own child looks first, and
refuses before anything runs. What it found is told with what became of the job.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _

from viewer.cli.arguments.edits import unit_named
from viewer.engines import engine_of
from viewer.engines.protocol import Contents, kind_of
from viewer.jobs.spool import Options
from viewer.messages.labels import loss_words
from viewer.models import Job


def add_loss_arguments(parser: CommandParser) -> None:
    """Declare how losses are accepted and questions answered."""
    add_accept_argument(parser)
    parser.add_argument(
        "--match",
        action="append",
        default=[],
        metavar="SAVED=TASKNUMBER",
        help=_(
            "Which task of the project a saved task is, where that is not certain; - where it is gone. SAVED "
            "is its number from 1 or its id; for an agent, its id, and the project's role behind it."
        ),
    )


def add_accept_argument(parser: CommandParser) -> None:
    """Declare how losses are accepted."""
    parser.add_argument(
        "--accept-losses", action="store_true", help=_("Start even if something of the run would be lost.")
    )


def accepted_in(options: Mapping[str, Any]) -> Options:
    """What is accepted, as a run's options: everything, or nothing."""
    return Options(accepted=["*"] if options["accept_losses"] else [])


def answers_of(options: Mapping[str, Any], contents: Contents) -> Options:
    """What is accepted and how it matches, as a run's options. Raises CommandError."""
    matches = {}
    for text in options["match"]:
        saved, mark, own = text.partition("=")
        if not mark or not saved or not own:
            raise CommandError(_("--match needs SAVED=TASKNUMBER, not %s.") % text)
        matches[_saved_id(saved, contents)] = own
    answers = accepted_in(options)
    return {**answers, "matches": matches} if matches else answers


def look_of(job: Job) -> dict[str, Any] | None:
    """What its child found before it ran; None where it has not said so, or could not tell."""
    event = job.events.filter(kind="preflight").first()
    report = event.data.get("report") if event else None
    return dict(report) if isinstance(report, dict) else None


def loss_lines(report: Mapping[str, Any] | None) -> Iterator[str]:
    """A line for each loss."""
    for part in (report or {}).get("components") or []:
        if part.get("fate") == "lost":
            yield _("Lost: %s") % loss_words(part)


def _saved_id(name: str, contents: Contents) -> str:
    """The id of the unit with this number; any other text is the id of a unit or an agent."""
    if not (name.isascii() and name.isdigit()):
        units = engine_of(contents).units_of(contents)
        if name not in {*(unit.id for unit in units), *(agent.id for agent in contents.agents)}:
            unit = _(kind_of(engine_of(contents), contents.kind).unit_label)
            message = _("This checkpoint has no %(unit)s or agent %(name)s.")
            raise CommandError(message % {"unit": unit, "name": name})
        return name
    return unit_named(contents, name)
