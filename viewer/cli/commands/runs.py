"""``forkline list``: the runs and checkpoints of a location in the terminal.

Apart from the commands that show one checkpoint, so that it starts without what they import.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli import finding
from viewer.cli.output import LOCATION, Output, Subcommand
from viewer.cli.rows import (
    ListedCheckpoint,
    branch_documents,
    branch_lines,
    checkpoint_document,
    rows_by_run,
    runs_of,
)
from viewer.formats import count_text
from viewer.host_requests import FindEnds, ask
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Location, Problem, Run
from viewer.presentation.run.window import listing_texts
from viewer.records.audit import is_at_terminal
from viewer.records.locations import is_indexed


def _add_list_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "location",
        type=LOCATION,
        metavar="LOCATION",
        help=_(
            "A folder of checkpoints, an SQLite file, or postgresql:NAME. LOCATION#THREAD lists one thread's "
            "checkpoints."
        ),
    )


def _handle_list(options: Mapping[str, Any]) -> Output:
    """Everything at the location, after an import. Raises CommandError."""
    path, thread = finding.split_target(options["location"])
    is_one_run = bool(thread) and not finding.may_be_location(options["location"])
    if is_one_run:
        location = finding.imported_location(path)
        found: Iterable[Run] = finding.with_called_runs(finding.opened_run(location, thread))
    else:
        location = finding.imported_location(options["location"])
        if is_at_terminal():
            ask(FindEnds(location.pk))
        found = runs_of(location)
    # Of an indexed location, only the checkpoints of a named run are listed now.
    has_rows = is_one_run or not is_indexed(location)
    runs = rows_by_run(found) if has_rows else ((run, []) for run in found)
    problems = [(problem.source_key, translate(problem.reason)) for problem in location.problems.all()]
    document = {
        "location": location.path,
        "store_kind": location.store_kind,
        "runs": (run_document(run, rows) for run, rows in runs),
        "problems": [{"path": key, "reason": reason} for key, reason in problems],
    }
    # It may be incomplete: the next import tries again.
    is_partial = bool(location.read_error) or location.problems.filter(kind=Problem.Kind.UNAVAILABLE).exists()
    # Only one of the two is printed, so the rows are read once.
    return Output(document, _list_lines(location, runs, problems), status=int(is_partial))


def run_document(run: Run, rows: list[ListedCheckpoint]) -> dict[str, Any]:
    """A run with its branches and these checkpoints. ``key`` is what addresses have."""
    document: dict[str, Any] = {
        "id": run.key,
        "key": str(run.uid),
        "entity": run.entity,
        "name": run.name,
        "status": run.status or None,
    }
    # Of a run that is only indexed, LOCATION#THREAD lists these.
    if rows:
        document["branches"] = branch_documents(rows)
        document["checkpoints"] = [checkpoint_document(row) for row in rows]
    return document


def _list_lines(
    location: Location,
    runs: Iterable[tuple[Run, list[ListedCheckpoint]]],
    problems: list[tuple[str, str]],
) -> Iterator[str]:
    yield location.path
    is_empty, labels = True, {value: str(label) for value, label in Run.Status.choices}
    for run, checkpoints in runs:
        is_empty = False
        yield ""
        tokens = ngettext("%(count)s token", "%(count)s tokens", run.tokens) % {
            "count": count_text(run.tokens)
        }
        status = f", {labels[run.status]}" if run.status else ""
        yield f"{run}  ({run.entity or _('not read yet')}, {tokens}{status})"
        if checkpoints:
            yield from (f"  {text}" for text in listing_texts(run))
        yield from branch_lines(checkpoints)
        width = max((len(row.progress) for row in checkpoints), default=0)
        branch_width = max((len(row.branch) for row in checkpoints), default=0)
        yield from (_list_line(row, max(width, 5), min(max(branch_width, 12), 40)) for row in checkpoints)
    if is_empty:
        yield _("No checkpoints here yet.")
    if problems:
        yield ""
        yield _("Not readable:")
        yield from (f"  {key}: {reason}" for key, reason in problems)


def _list_line(row: ListedCheckpoint, width: int, branch_width: int) -> str:
    """One checkpoint; the widths are those of its progress and branch."""
    at = f"{row.created_at:%Y-%m-%d %H:%M:%S} UTC" if row.created_at else "-" * 23
    state = "" if row.state == Checkpoint.State.PRESENT else f"  [{Checkpoint.State(row.state).label}]"
    done = row.progress if row.step is None else f"{row.step}"
    return (
        f"  {row.checkpoint_id:<26} {at}  {done:>{width}}  {row.branch:<{branch_width}} {row.trigger}{state}"
    )


LIST = Subcommand(
    gettext_lazy("List the runs and checkpoints of a location."), _add_list_arguments, _handle_list
)
