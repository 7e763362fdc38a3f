"""The graph of a whole run, laid out by ``dot``: each chain of checkpoints without a fork is one node."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import graphviz

from viewer.lineage.drawing import DOT_SECONDS, POINTS_AN_INCH, NoLayout, ask_dot, inches
from viewer.lineage.tree import ParentLink

# A graph with more nodes is not drawn, since it would be slow and unreadable.
MAX_NODES = 1500
# Pixels of a node, and between two of them.
NODE_WIDTH, NODE_HEIGHT = 208, 58
GAP_ACROSS, GAP_BELOW = 44, 14


class Link(NamedTuple):
    """A checkpoint and its parent, by their keys."""

    key: int
    parent: int | None
    branch: str
    parent_link: str


@dataclass(slots=True)
class Chain:
    """Consecutive checkpoints of one branch without a fork between them.

    ``last`` is the key of its newest checkpoint, ``parent`` the position of the chain that it continues, and
    ``parent_link`` says how the parent of its oldest checkpoint is known.
    """

    last: int
    branch: str
    parent_link: str
    parent: int | None
    count: int = 1


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """The centre of each chain's node, and the SVG path from each chain's parent, in CSS pixels."""

    width: float
    height: float
    centres: dict[int, tuple[float, float]]
    paths: dict[int, str]


def collapse(links: Sequence[Link]) -> tuple[list[Chain], dict[int, int]]:
    """Return the chains of a run, and the position of each checkpoint's chain by its key.

    Checkpoints are given oldest first. A parent that comes later is ignored, as it is a contradiction.
    """
    children = Counter(link.parent for link in links)
    chains: list[Chain] = []
    chain_of: dict[int, int] = {}
    for link in links:
        at = None if link.parent is None else chain_of.get(link.parent)
        if at is not None and _continues(chains[at], link, children):
            chains[at].last = link.key
            chains[at].count += 1
        else:
            chains.append(Chain(link.key, link.branch, link.parent_link, at))
            at = len(chains) - 1
        chain_of[link.key] = at
    return chains, chain_of


def _continues(chain: Chain, link: Link, children: Counter[int | None]) -> bool:
    return (
        chain.branch == link.branch and children[link.parent] == 1 and link.parent_link == ParentLink.RECORDED
    )


def lay_out(chains: Sequence[Chain], seconds: float = DOT_SECONDS) -> GraphLayout:
    """Return the layout from left to right.

    Raises NoLayout without ``dot``, with too many chains, or if the layout takes longer than ``seconds``.
    """
    if len(chains) > MAX_NODES:
        raise NoLayout("drawing.too_many_forks")
    graph = graphviz.Digraph(
        graph_attr={
            "rankdir": "LR",
            "nodesep": f"{GAP_BELOW / POINTS_AN_INCH:.3f}",
            "ranksep": f"{GAP_ACROSS / POINTS_AN_INCH:.3f}",
            "splines": "true",
        },
        node_attr={
            "shape": "box",
            "label": "",
            "fixedsize": "true",
            "width": f"{NODE_WIDTH / POINTS_AN_INCH:.3f}",
            "height": f"{NODE_HEIGHT / POINTS_AN_INCH:.3f}",
        },
        edge_attr={"arrowhead": "none", "tailport": "e", "headport": "w"},
    )
    for number, chain in enumerate(chains):
        graph.node(f"n{number}")
        if chain.parent is not None:
            # A branch is drawn as straight as possible.
            weight = "8" if chains[chain.parent].branch == chain.branch else "1"
            graph.edge(f"n{chain.parent}", f"n{number}", weight=weight)
    return _layout_in(ask_dot(str(graph.source), seconds))


def literal_label(text: str) -> str:
    """A label that ``dot`` shows as it is: no escape sequence, no markup, the text's own line breaks."""
    # The whole label is marked: joining marked parts would give an unmarked text, which may look like markup.
    return graphviz.nohtml(graphviz.escape(text).replace("\n", "\\n"))


def _layout_in(lines: Iterable[list[str]]) -> GraphLayout:
    """Return the layout that dot's plain output holds."""
    width = height = 0.0
    centres: dict[int, tuple[float, float]] = {}
    paths: dict[int, str] = {}
    for words in lines:
        if words[0] == "graph":
            width, height = inches(words[2]), inches(words[3])
        elif words[0] == "node":
            centres[int(words[1][1:])] = (inches(words[2]), inches(words[3]))
        elif words[0] == "edge":
            points = [inches(word) for word in words[4 : 4 + 2 * int(words[3])]]
            pairs = [f"{x:g} {y:g}" for x, y in zip(points[::2], points[1::2], strict=True)]
            paths[int(words[2][1:])] = f"M{pairs[0]}C{' '.join(pairs[1:])}"
    return GraphLayout(width, height, centres, paths)
