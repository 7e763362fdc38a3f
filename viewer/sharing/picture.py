"""The picture of a run's lineage that a chat shows where a link is pasted."""

from datetime import datetime
from functools import lru_cache

import graphviz

from viewer.lineage.drawing import draw_picture
from viewer.lineage.run_graph import Chain, Link, collapse, literal_label
from viewer.models import Checkpoint, Run

# The newest checkpoints that are drawn, and the newest of their nodes. More could not be read.
MAX_CHECKPOINTS, MAX_NODES = 5_000, 40
# Characters of a branch's name.
MAX_NAME = 28
DRAWING_SECONDS = 3.0
COLOURS = ("#3959f9", "#077b5b", "#b64a09", "#9438b0", "#0e7593", "#8a6400")


def lineage_png(run: Run) -> bytes:
    """Return the picture as PNG, at most 1200 by 630 pixels. It names branches only.

    Raises NoLayout without ``dot``, or if it takes too long.
    """
    return _drawn(run.pk, run.checkpoint_count, run.branch_count, run.last_at)


@lru_cache(maxsize=16)
def _drawn(run: int, _checkpoints: int, _branches: int, _last_at: datetime | None) -> bytes:
    """Return the picture of a run, drawn once for each state of it."""
    newest = Checkpoint.objects.filter(run=run).order_by("-row")
    rows = list(newest.values_list("pk", "parent_id", "branch", "parent_link")[:MAX_CHECKPOINTS])
    chains, _chain_of = collapse([Link(*row) for row in reversed(rows)])
    return draw_picture(picture_source(chains), DRAWING_SECONDS)


def picture_source(chains: list[Chain]) -> str:
    """Return the newest chains in Graphviz' language."""
    graph = graphviz.Digraph(
        # 12 by 6.3 inches with 100 dots an inch.
        graph_attr={"rankdir": "LR", "size": "12,6.3!", "dpi": "100", "bgcolor": "white", "pad": "0.4"},
        node_attr={"shape": "box", "style": "rounded,filled", "fillcolor": "white", "fontname": "Helvetica"},
        edge_attr={"arrowhead": "none", "color": "#87878e", "penwidth": "2"},
    )
    first = max(0, len(chains) - MAX_NODES)
    branches = list(dict.fromkeys(chain.branch for chain in chains))
    for number, chain in enumerate(chains[first:], first):
        colour = COLOURS[branches.index(chain.branch) % len(COLOURS)]
        text = f"{_short(chain.branch)}  ·  {chain.count}"
        graph.node(f"n{number}", literal_label(text), color=colour, fontcolor=colour, penwidth="2")
        if chain.parent is not None and chain.parent >= first:
            graph.edge(f"n{chain.parent}", f"n{number}")
    return str(graph.source)


def _short(branch: str) -> str:
    name = "".join(one for one in branch if one.isprintable())
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"
