"""The lineage of a run as a picture: SVG with labels, and DOT for Graphviz."""

from dataclasses import dataclass

import graphviz
from django.db.models import F
from django.template.loader import render_to_string

from viewer.lineage.drawing import ROW, draw_window
from viewer.lineage.run_graph import literal_label
from viewer.models import Run
from viewer.presentation.run.triggers import trigger_label
from viewer.presentation.run.window import nodes_of, run_styles

# A picture has this many of the newest checkpoints. A larger one would be unreadable.
MAX_ROWS = 2_000
TEXT_WIDTH = 620
# Characters of a label.
MAX_LABEL = 90


@dataclass(frozen=True, slots=True)
class Label:
    """The text of a row of the picture, in pixels."""

    y: float
    text: str
    branch: str


def lineage_svg(run: Run) -> str:
    """The lanes of a run with a label per checkpoint, newest on top, as a self-contained SVG."""
    rows = list(
        run.checkpoints.annotate(
            parent_row=F("parent__row"), parent_lane=F("parent__lane"), parent_branch=F("parent__branch")
        ).order_by("-row")[:MAX_ROWS]
    )
    drawing = draw_window(nodes_of(rows, run_styles(run)), (), run.lane_count)
    labels = [
        Label(
            number * ROW + ROW / 2 + 4,
            printable(f"{trigger_label(row.trigger)} {row.subject}".strip())[:MAX_LABEL],
            printable(row.branch) if row.is_branch_head else "",
        )
        for number, row in enumerate(rows)
    ]
    context = {
        "drawing": drawing,
        "labels": labels,
        "title": printable(str(run)),
        "text_x": drawing.width + 12,
    }
    context |= {"width": drawing.width + TEXT_WIDTH, "height": max(ROW, drawing.height)}
    context["left_out"] = max(0, run.checkpoint_count - MAX_ROWS)
    return render_to_string("export/lineage.svg", context)


def lineage_dot(run: Run) -> str:
    """The checkpoints of a run and their parents, in Graphviz' language."""
    graph = graphviz.Digraph(literal_label(printable(str(run))), node_attr={"shape": "box"})
    for row in run.checkpoints.select_related("parent").order_by("row").iterator(2000):
        text = f"{row.branch}\n{trigger_label(row.trigger)} {row.subject}".strip()
        graph.node(f"c{row.pk}", literal_label(printable(text)))
        if row.parent_id is not None:
            is_recorded = row.parent_link == row.ParentLink.RECORDED
            graph.edge(f"c{row.parent_id}", f"c{row.pk}", style="solid" if is_recorded else "dashed")
    return str(graph.source)


def printable(text: str) -> str:
    """The text without characters that XML cannot hold."""
    return "".join(one for one in text if one in "\n\t" or (one.isprintable() and one not in "\ufffe\uffff"))
