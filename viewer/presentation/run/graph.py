"""The graph of a run: each series of checkpoints without a fork is one node."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import F

from viewer.lineage.drawing import Chain, Drawing, collapse, draw_overview
from viewer.models import Checkpoint, Run
from viewer.presentation.run.triggers import trigger_label
from viewer.presentation.run.window import nodes_of, run_styles


@dataclass(frozen=True, slots=True)
class Node:
    """One series of checkpoints: the link, position and label of its node."""

    checkpoint: Checkpoint
    x: float
    y: float
    colour: int
    running: bool
    failed: bool
    selected: bool
    text: str
    count: int


@dataclass(frozen=True, slots=True)
class Overview:
    """The drawing of a run and its nodes."""

    drawing: Drawing
    nodes: tuple[Node, ...]


def overview_of(run: Run, at: str) -> Overview:
    """Return the graph of a run, with the node of the checkpoint ``at`` selected. Raises NoLayout."""
    rows = list(
        run.checkpoints.annotate(parent_row=F("parent__row"), parent_lane=F("parent__lane")).order_by("row")
    )
    styles = run_styles(run)
    chains = collapse(nodes_of(rows, styles))
    drawing = draw_overview(chains)
    by_key = {str(row.pk): row for row in rows}
    chain_of = {chain.keys[-1]: chain for chain in chains}
    nodes = [_node(chain_of[dot.key], by_key, dot.x, dot.y, at) for dot in drawing.dots]
    return Overview(drawing, tuple(nodes))


def _node(chain: Chain, by_key: Mapping[str, Checkpoint], x: float, y: float, at: str) -> Node:
    last = by_key[chain.keys[-1]]
    return Node(
        checkpoint=last,
        x=x,
        y=y,
        colour=chain.colour,
        running=chain.running,
        failed=chain.shape == "failure",
        selected=any(by_key[key].checkpoint_id == at for key in chain.keys),
        text=trigger_label(last.trigger),
        count=len(chain.keys),
    )
