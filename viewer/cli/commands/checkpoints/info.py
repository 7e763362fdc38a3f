"""``manage.py checkpoints info``."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer.cli.edits import CHECKPOINT
from viewer.cli.finding import checkpoint_at
from viewer.cli.graphs import dot_lines, graph_at, graph_document, graph_lines
from viewer.cli.output import Output
from viewer.cli.rows import checkpoint_document
from viewer.engines import engine_of
from viewer.engines.protocol import Contents, kind_of
from viewer.formats import count_text
from viewer.models import Checkpoint
from viewer.records.bodies import stored_contents

HELP = gettext_lazy("Show one checkpoint: its inputs, tasks, state and agents.")


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "checkpoint",
        type=CHECKPOINT,
        metavar="LOCATION#ID",
        help=_("A checkpoint of a location, or a checkpoint's file."),
    )
    parser.add_argument(
        "--graph",
        nargs="?",
        const="text",
        choices=("text", "dot"),
        help=_("Show the graph of its run as well, or only the graph in Graphviz' DOT."),
    )


def handle(options: Mapping[str, Any]) -> Output:
    """The stored, redacted copy, after an import of its location. Raises CommandError."""
    row = checkpoint_at(options["checkpoint"])
    contents, first = stored_contents(row), _first_contents(row)
    document = {**checkpoint_document(row), **engine_of(contents).info(contents, first)}
    lines = list(_lines(row, contents, first))
    if options["graph"]:
        graph = graph_at(row)
        document["graph"] = graph_document(graph)
        lines = dot_lines(graph) if options["graph"] == "dot" else [*lines, *graph_lines(graph)]
    return Output(document, lines)


def _first_contents(row: Checkpoint) -> Contents | None:
    """What the first checkpoint of its run holds, if the run began with a prompt; else None."""
    if not kind_of(engine_of(row.location), row.entity).prompt:
        return None
    rows = row.run.checkpoints.exclude(state=Checkpoint.State.NO_COPY)
    first = rows.select_related("location", "stored_copy").order_by("row").first()
    return stored_contents(first) if first else None


def _lines(row: Checkpoint, contents: Contents, first: Contents | None) -> Iterable[str]:
    yield f"{row.checkpoint_id}  {row.entity} {row.name}".rstrip()
    parent = row.parent_checkpoint_id or (row.parent.checkpoint_id if row.parent else "-")
    yield "  " + _("on %(branch)s, after %(parent)s (%(edge)s), at %(trigger)s") % {
        "branch": row.branch,
        "parent": parent,
        "edge": row.get_parent_link_display(),
        "trigger": row.trigger or "-",
    }
    if row.step is None:
        yield f"  {_counts(row)}"
    if contents.is_of_newer_version:
        yield (
            "  "
            + _("written by %(engine)s %(version)s, which is newer than all versions that Forkline knows")
            % {"engine": engine_of(contents).title, "version": row.engine_version}
        )
    if contents.unknown:
        yield "  " + _("not understood: %s") % ", ".join(contents.unknown)
    yield from (f"  {line}" for line in engine_of(contents).info_lines(contents, first))


def _counts(row: Checkpoint) -> str:
    done, total = row.progress, row.total
    if total is not None:
        done = _("%(done)d of %(total)d done") % {"done": row.units_done, "total": total}
    events = ngettext("%(count)s event", "%(count)s events", row.event_count) % {
        "count": count_text(row.event_count)
    }
    tokens = ngettext("%(count)s token", "%(count)s tokens", row.tokens) % {"count": count_text(row.tokens)}
    return f"{done}, {events}, {tokens}"
