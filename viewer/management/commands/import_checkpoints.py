"""``manage.py import_checkpoints LOCATION``: import what has changed at a location."""

import sys
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from viewer.cli import LOCATION
from viewer.cli.finding import imported
from viewer.data_folder import prepare_data_folder
from viewer.formats import count_text
from viewer.management import ForklineCommand
from viewer.management.commands.checkpoints import end_orphaned_jobs
from viewer.messages.translation import translate
from viewer.records.locations import is_indexed


class Command(ForklineCommand):
    help = "Import the checkpoints of a folder or SQLite file. Only what is new or has changed is read."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "location",
            type=LOCATION,
            metavar="LOCATION",
            help=_("A folder of checkpoints, an SQLite file, postgresql:NAME, or saver:FOLDER."),
        )
        parser.add_argument(
            "--permit-code",
            action="store_true",
            help=_("Permit running the code of the project whose checkpoint saver the location is."),
        )
        parser.add_argument("--json", action="store_true", help=_("Print one JSON document, nothing else."))

    def handle(self, *args: Any, **options: Any) -> None:
        prepare_data_folder()
        end_orphaned_jobs()
        counts = _imported(options["location"], permits_code=options["permit_code"])
        if options["json"]:
            self.say_json(counts)
        else:
            self.say([_sentence(counts), *_unavailable(counts["unavailable"])])
        if counts["unavailable"]:
            sys.exit(1)


def _imported(path: str, *, permits_code: bool) -> dict[str, Any]:
    """The counts at the location, and what is new. Raises CommandError."""
    location, summary = imported(path, permits_code=permits_code)
    if summary.read_error:
        raise CommandError(f"{location.path}: {translate(summary.read_error)}")
    # Of an indexed location, an import lists runs. Their checkpoints are listed when a run is opened.
    counted: dict[str, Any] = {"checkpoints": location.checkpoints.count()}
    if is_indexed(location):
        counted = {"runs": location.runs.top_level().count(), "counts": "runs"}
    return {
        "location": location.path,
        "store_kind": location.store_kind,
        **counted,
        "added": summary.added,
        "changed": summary.changed,
        "pruned": summary.pruned,
        "problems": summary.problems,
        "unavailable": summary.unavailable,
    }


def _unavailable(keys: list[str]) -> Iterator[str]:
    """Lines on what could not be opened or read."""
    if keys:
        yield _("Not available; the next import tries again:")
        yield from (f"  {key}" for key in keys)


def _sentence(counts: dict[str, Any]) -> str:
    shown = {name: count_text(number) for name, number in counts.items() if isinstance(number, int)}
    news = _("%(added)s new, %(changed)s changed, %(pruned)s pruned, %(problems)s unreadable") % shown
    if "runs" in counts:
        there = ngettext("%(count)s run", "%(count)s runs", counts["runs"]) % {"count": shown["runs"]}
        return f"{counts['location']}: {there}, {news}. " + _(
            "The checkpoints of a run are listed when it is opened."
        )
    there = ngettext("%(count)s checkpoint", "%(count)s checkpoints", counts["checkpoints"])
    return f"{counts['location']}: {there % {'count': shown['checkpoints']}}, {news}."
