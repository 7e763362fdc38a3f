"""Graphs of a run's checkpoints and of its units of work, laid out by ``dot``."""

import shutil
import subprocess
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import graphviz

from viewer.messages.message import UserFacingError
from viewer.records.lineage.tree import ParentLink

DOT_SECONDS = 2.0
POINTS_AN_INCH = 72


class NoLayout(UserFacingError):
    """A graph could not be laid out. The message says why; the lanes can still be drawn."""


def ask_dot(source: str, seconds: float) -> Iterable[list[str]]:
    """The lines of dot's plain output, split into words."""
    answer = _run_dot(["-Tplain", "-y"], source, seconds).decode()
    return [line.split() for line in answer.splitlines()]


def draw_picture(source: str, seconds: float) -> bytes:
    """Return dot's drawing of a graph as PNG."""
    return _run_dot(["-Tpng"], source, seconds)


def _run_dot(arguments: list[str], source: str, seconds: float) -> bytes:
    """Return what dot prints. Raises NoLayout without it, if it fails, or if it takes too long."""
    program = shutil.which("dot")
    if program is None:
        raise NoLayout("drawing.graphviz_missing")
    command = [program, *arguments]
    try:
        return subprocess.run(
            command, input=source.encode(), capture_output=True, timeout=seconds, check=True
        ).stdout
    except subprocess.TimeoutExpired:
        raise NoLayout("drawing.graphviz_timed_out") from None
    except (OSError, subprocess.CalledProcessError):
        raise NoLayout("drawing.graphviz_failed") from None


def inches(word: str) -> float:
    """Convert inches to pixels."""
    return round(float(word) * POINTS_AN_INCH, 1)


def _edge_path(words: Sequence[str]) -> str:
    """The SVG path of an edge in dot's plain output, which has the number of its points and these."""
    points = [inches(word) for word in words[4 : 4 + 2 * int(words[3])]]
    pairs = [f"{x:g} {y:g}" for x, y in zip(points[::2], points[1::2], strict=True)]
    return f"M{pairs[0]}C{' '.join(pairs[1:])}"


# The graph of a whole run, laid out by ``dot``: each chain of checkpoints without a fork is one node.


# More chains than MAX_SIBLINGS that continue the same one are folded into one node, and so are those that
# exceed MAX_DRAWN. Each drawn chain has at most one such node, so dot lays out about twice as many at most.
MAX_SIBLINGS, MAX_DRAWN = 40, 700
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
    ``parent_link`` says how the parent of its oldest checkpoint is known. If it stands for folded chains,
    ``forks`` is the number of those that continue its parent, and ``count`` covers all that follow them.
    """

    last: int
    branch: str
    parent_link: str
    parent: int | None
    count: int = 1
    forks: int = 0


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


def fold_forks(
    chains: Sequence[Chain], always: Iterable[int], opened: Mapping[int | None, int]
) -> tuple[list[Chain], list[int]]:
    """Return the chains to draw, with folded ones as one chain, and where each given chain is among them.

    Chains that lead to those in ``always`` are drawn, and of the folded ones that continue a chain in
    ``opened``, the given number of the newest.
    """
    children: dict[int | None, list[int]] = defaultdict(list)
    for number, chain in enumerate(chains):
        children[chain.parent].append(number)
    drawn: set[int] = set()
    for number in (*always, *(parent for parent in opened if parent is not None)):
        drawn.update(_way_to(chains, number)[: max(0, MAX_DRAWN - len(drawn))])
    waiting, seen = deque([*opened, None]), set[int | None]()
    while waiting:
        parent = waiting.popleft()
        if parent in seen or (parent is not None and parent not in drawn):
            continue
        seen.add(parent)
        for child in _unfolded(chains, children[parent], drawn, opened.get(parent, 0)):
            if child in drawn or len(drawn) < MAX_DRAWN:
                drawn.add(child)
                waiting.append(child)
    return _with_folded(chains, children, drawn)


def _way_to(chains: Sequence[Chain], number: int) -> list[int]:
    """Return a chain and those before it, oldest first."""
    way, at = [], number if number < len(chains) else None
    while at is not None:
        way.append(at)
        at = chains[at].parent
    return way[::-1]


def _unfolded(chains: Sequence[Chain], siblings: Sequence[int], drawn: set[int], newest: int) -> list[int]:
    """Return the siblings that are not folded: of their parent's branch, drawn anyway, or the newest."""
    if len(siblings) <= MAX_SIBLINGS:
        return list(siblings)
    parent = chains[siblings[0]].parent
    branch = None if parent is None else chains[parent].branch
    kept = [number for number in siblings if number in drawn or chains[number].branch == branch]
    others = [number for number in reversed(siblings) if number not in set(kept)]
    return [*kept, *others[:newest]]


def _with_folded(
    chains: Sequence[Chain], children: Mapping[int | None, Sequence[int]], drawn: set[int]
) -> tuple[list[Chain], list[int]]:
    # A chain comes after the one that it continues.
    totals = [chain.count for chain in chains]
    for number in reversed(range(len(chains))):
        parent = chains[number].parent
        if parent is not None:
            totals[parent] += totals[number]
    shown: list[Chain] = []
    places: list[int] = []
    folded: dict[int | None, int] = {}
    for number, chain in enumerate(chains):
        at = None if chain.parent is None else places[chain.parent]
        if number in drawn:
            places.append(len(shown))
            shown.append(replace(chain, parent=at))
        elif chain.parent is not None and chain.parent not in drawn:
            places.append(places[chain.parent])
        elif chain.parent in folded:
            group = shown[folded[chain.parent]]
            places.append(folded[chain.parent])
            group.last, group.forks, group.count = chain.last, group.forks + 1, group.count + totals[number]
        else:
            folded[chain.parent] = len(shown)
            places.append(len(shown))
            shown.append(Chain(chain.last, "", chain.parent_link, at, totals[number], forks=1))
    return shown, places


def lay_out(chains: Sequence[Chain], seconds: float = DOT_SECONDS) -> GraphLayout:
    """Return the layout from left to right.

    Raises NoLayout without ``dot``, or if the layout takes longer than ``seconds``.
    """
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
            paths[int(words[2][1:])] = _edge_path(words)
    return GraphLayout(width, height, centres, paths)


# Units of work and the edges between them, laid out by ``dot``, which receives generated ids and no text.


MAX_UNITS, MAX_EDGES = 200, 1_000
# Inches of a box: for each character of its name, and around it.
_INCHES_A_CHARACTER, _INCHES_AROUND = 0.09, 0.25
# Pixels between a group's frame and the boxes in it, and above them for its title.
_PADDING, _TITLE = 9, 14
# Separates the levels of a unit inside another one.
SEPARATOR = "/"


@dataclass(frozen=True, slots=True)
class Box:
    """Where the box of a unit is, in pixels. ``number`` is its position in the list of names."""

    number: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame around the units inside another one, in pixels, from its upper left corner."""

    # The name of the unit that contains them.
    group: str
    x: float
    y: float
    width: float
    height: float

    @property
    def title(self) -> str:
        """The last part of its name."""
        return self.group.rpartition(SEPARATOR)[2]


@dataclass(frozen=True, slots=True)
class EdgePath:
    """The SVG path of an edge, in pixels, and the positions of the units that it connects."""

    first: int
    second: int
    path: str


@dataclass(frozen=True, slots=True)
class UnitDrawing:
    """Boxes, the edges between them, and the frames around them, outer ones first."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    paths: tuple[EdgePath, ...]
    frames: tuple[Frame, ...] = ()


def draw_units(names: Sequence[str], shown: Sequence[str], edges: Sequence[tuple[int, int]]) -> UnitDrawing:
    """The layout of these units, from top to bottom. Raises NoLayout.

    ``shown`` are the texts in the boxes. Units named ``outer/inner`` are kept together and get a frame.
    """
    if len(names) > MAX_UNITS or len(edges) > MAX_EDGES:
        raise NoLayout("drawing.too_many_units")
    width = height = 0.0
    boxes: list[Box] = []
    paths: list[EdgePath] = []
    for words in ask_dot(_source(names, shown, edges), DOT_SECONDS):
        if words[0] == "graph":
            width, height = inches(words[2]), inches(words[3])
        elif words[0] == "node":
            x, y, box_width, box_height = (inches(word) for word in words[2:6])
            boxes.append(Box(int(words[1][1:]), x, y, box_width, box_height))
        elif words[0] == "edge":
            paths.append(EdgePath(int(words[1][1:]), int(words[2][1:]), _edge_path(words)))
    return UnitDrawing(width, height, tuple(boxes), tuple(paths), tuple(_frames(names, boxes)))


def _source(names: Sequence[str], shown: Sequence[str], edges: Sequence[tuple[int, int]]) -> str:
    """The input of ``dot``."""
    graph = graphviz.Digraph(
        graph_attr={"nodesep": "0.2", "ranksep": "0.4", "splines": "true"},
        node_attr={"shape": "box", "label": "", "height": "0.36", "fixedsize": "true"},
        edge_attr={"arrowhead": "none"},
    )
    for number, text in enumerate(shown):
        graph.node(f"n{number}", width=f"{len(text) * _INCHES_A_CHARACTER + _INCHES_AROUND:.2f}")
    _add_groups(graph, {number: name.split(SEPARATOR)[:-1] for number, name in enumerate(names)}, [0])
    for first, second in edges:
        graph.edge(f"n{first}", f"n{second}")
    return str(graph.source)


def _add_groups(graph: graphviz.Digraph, levels: Mapping[int, list[str]], count: list[int]) -> None:
    """Keep the units of a group together. ``count`` holds the number of groups so far, for their ids."""
    groups: dict[str, dict[int, list[str]]] = defaultdict(dict)
    for number, outer in levels.items():
        if outer:
            groups[outer[0]][number] = outer[1:]
    for members in groups.values():
        count[0] += 1
        # The margin has room for the frame and its title.
        with graph.subgraph(name=f"cluster{count[0]}", graph_attr={"margin": "16"}) as inner:
            for number in members:
                inner.node(f"n{number}")
            _add_groups(inner, members, count)


def _frames(names: Sequence[str], boxes: Sequence[Box]) -> Iterator[Frame]:
    """The frame of each group, around its boxes and the frames inside it."""
    members: dict[str, list[Box]] = defaultdict(list)
    for box in boxes:
        levels = names[box.number].split(SEPARATOR)[:-1]
        for depth in range(1, len(levels) + 1):
            members[SEPARATOR.join(levels[:depth])].append(box)
    for group in sorted(members):
        deepest = max(names[box.number].count(SEPARATOR) for box in members[group])
        around = deepest - group.count(SEPARATOR)
        left = min(box.x - box.width / 2 for box in members[group]) - _PADDING * around
        right = max(box.x + box.width / 2 for box in members[group]) + _PADDING * around
        top = min(box.y - box.height / 2 for box in members[group]) - _PADDING - _TITLE * around
        bottom = max(box.y + box.height / 2 for box in members[group]) + _PADDING * around
        yield Frame(group, left, top, right - left, bottom - top)
