"""``forkline search``."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.finding import known_location, listed_location
from viewer.cli.output import DAY, LOCATION, Output, Subcommand
from viewer.cli.rows import checkpoint_document
from viewer.host_requests import IndexNow, ask
from viewer.messages.translation import translate
from viewer.models import Location, SearchEntry
from viewer.records.audit import Action, Audited, is_at_terminal, record
from viewer.records.search import Results, SearchRefused, SearchResult, progress, search
from viewer.records.search_filters import FILTER_TYPES, STATUSES, Filters, filters_from
from viewer.validation import NAME, OptionType, number_option

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
