"""``forkline list`` and ``search``: runs and checkpoints in the terminal.

Apart from the commands that show one checkpoint, so that they start without what those import.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli import DAY, LOCATION, Output, Subcommand, finding
from viewer.cli.finding import known_location, listed_location
from viewer.cli.rows import (
    ListedCheckpoint,
    branch_documents,
    branch_lines,
    checkpoint_document,
    rows_by_run,
    runs_of,
)
from viewer.formats import count_text
from viewer.host_requests import FindEnds, IndexNow, ask
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Location, Problem, Run, SearchEntry
from viewer.presentation.run.window import listing_texts
from viewer.records.audit import Action, Audited, is_at_terminal, record
from viewer.records.locations import is_indexed
from viewer.records.search import Results, SearchRefused, SearchResult, progress, search
from viewer.records.search_filters import FILTER_TYPES, STATUSES, Filters, filters_from
from viewer.validation import NAME, OptionType, number_option


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


# Seconds for which new checkpoints are indexed before the search, if no worker does so.
INDEXING_SECONDS = 5.0
MAX_RESULTS = 1_000


def _add_search_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "words",
        type=NAME,
        nargs="*",
        metavar="WORD",
        help=_(
            'Words that must appear. "A phrase" is one argument in quotes. The last word may be a prefix.'
        ),
    )
    parser.add_argument("--location", type=LOCATION, metavar="LOCATION", help=_("Only this location."))
    parser.add_argument(
        "--without", action="append", default=[], type=NAME, help=_("A word that must not appear.")
    )
    parser.add_argument(
        "--kind", choices=SearchEntry.Kind.values, default="", help=_("Only texts of this kind.")
    )
    parser.add_argument(
        "--status",
        choices=STATUSES,
        default="",
        help=_("Only checkpoints with this status."),
    )
    for name, (kind, text) in _search_texts().items():
        parser.add_argument(f"--{name}", type=kind, help=text)
    parser.add_argument(
        "--edited",
        action="store_const",
        const="1",
        default="",
        help=_("Only checkpoints that start with a person's edits."),
    )
    parser.add_argument(
        "--unattended",
        action="store_const",
        const="1",
        default="",
        help=_("Only failed checkpoints that nobody has run again."),
    )
    parser.add_argument(
        "--limit",
        type=number_option(1, MAX_RESULTS),
        default=30,
        help=_("How many results to print (default: 30)."),
    )


def _search_texts() -> dict[str, tuple[OptionType, str]]:
    """The options that take a text, with their types and help."""
    tokens = OptionType("number", lambda text: checked("tokens", text))
    cost = OptionType("decimal", lambda text: checked("cost", text))
    return {
        "entity": (NAME, _("The kind of what ran, as its engine names it.")),
        "agent": (NAME, _("The role of an agent.")),
        "unit": (NAME, _("The title or name of a unit of work.")),
        "model": (NAME, _("A model.")),
        "branch": (NAME, _("A branch.")),
        "trigger": (NAME, _("The event at which the checkpoint was written.")),
        "since": (DAY, _("The first day, as YYYY-MM-DD.")),
        "until": (DAY, _("The last day, as YYYY-MM-DD.")),
        "tokens": (tokens, _("Only checkpoints with at least this many tokens.")),
        "cost": (cost, _("Only runs that cost at least this many US dollars.")),
        "engine-version": (NAME, _("The version of the engine.")),
    }


def checked(name: str, text: str) -> str:
    """The text of a filter. Raises InvalidInput."""
    FILTER_TYPES[name](text)
    return text


def _handle_search(options: Mapping[str, Any]) -> Output:
    """The results, at a terminal after new checkpoints were indexed for a while. Raises CommandError."""
    filters = _search_filters(options)
    if not filters:
        raise CommandError(_("Name a word or an option to search for."))
    if is_at_terminal():
        ask(IndexNow(INDEXING_SECONDS, costs=bool(filters.cost)))
    document, found = results_document(filters, options["limit"])
    return Output(document, list(_search_lines(found, is_complete=document["is_fully_indexed"])))


def results_document(
    filters: Filters, most: int, before: int | None = None
) -> tuple[dict[str, Any], Results]:
    """The document of the newest results of a search, and the results. Raises CommandError."""
    try:
        found = search(filters, before, most)
    except SearchRefused as error:
        raise CommandError(translate(error)) from None
    record(Action.SEARCHED, Audited.SEARCH, detail=filters.names)
    document = {
        "count": found.count,
        "is_more_than_counted": found.is_more_than_counted,
        "is_fully_indexed": progress() is None,
        "results": [_search_document(result) for result in found.results],
    }
    return document, found


def _search_filters(options: Mapping[str, Any]) -> Filters:
    """Raises CommandError for a location that was not added."""
    quoted = [f'"{word}"' if " " in word else word for word in options["words"]]
    words = " ".join([*(f'-"{word}"' for word in options["without"]), *quoted])
    given = {name: value for name, value in options.items() if value is not None}
    values = {**given, "q": words, "version": options["engine_version"] or ""}
    if text := options["location"]:
        values["location"] = str(_searched_location(text).uid)
    return filters_from(values)


def _searched_location(text: str) -> Location:
    """The location that the argument names. Raises CommandError for an unknown one."""
    if is_at_terminal():
        # A path as a person types it, or HOST:PATH.
        with suppress(CommandError):
            return listed_location(text)
    return known_location(text)


def _search_document(result: SearchResult) -> dict[str, Any]:
    entry, row = result.entry, result.checkpoint
    return {
        "location": row.location.path,
        "run": row.run.key,
        "checkpoint": checkpoint_document(row),
        "kind": entry.kind if entry else None,
        "unit": entry.unit if entry else None,
        "agent": entry.agent if entry else None,
        "model": entry.model if entry else None,
        "more_checkpoints": entry.more if entry else None,
        "excerpt": "".join(text for text, _is_match in result.excerpt),
        "address": result.address,
    }


def _search_lines(found: Results, *, is_complete: bool) -> Iterable[str]:
    for result in found.results:
        row, entry = result.checkpoint, result.entry
        kind = f"  {entry.get_kind_display()}" if entry else ""
        yield f"{row.target}  {row.run}{kind}"
        if result.excerpt:
            marked = "".join(f"[{text}]" if is_match else text for text, is_match in result.excerpt)
            yield f"  {' '.join(marked.split())}"
    if not found.results:
        yield _("Nothing found.")
    if not is_complete:
        yield _("Some checkpoints are not indexed yet. Search again in a while.")


SEARCH = Subcommand(
    gettext_lazy("Search the texts of all checkpoints, newest first."), _add_search_arguments, _handle_search
)
