"""The graphs of a run: of its checkpoints, where each series without a fork is one node, and of its units."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext, ngettext

from viewer.engines import engine_of
from viewer.engines.contents import GraphEdge
from viewer.formats import count_text
from viewer.models import Checkpoint, Run
from viewer.presentation.run.branches import RunStyles, shape_of, title_of
from viewer.presentation.run.window import chosen, failed, run_styles
from viewer.records.lineage import graphs
from viewer.records.lineage.graphs import SEPARATOR, Box, Frame, UnitDrawing, draw_units
from viewer.records.lineage.lanes import Dot, Shape

# The graph of a run's checkpoints.


# Where a node's dot is, in pixels from its corner.
MARK = (17, 14)
MARGIN = 12
# How many folded forks the first press draws. Each further one draws twice as many.
OPENED_AT_FIRST = 50
# The columns of its newest checkpoint that a node shows.
_NODE_COLUMNS = (
    *("run", "checkpoint_id", "branch", "trigger", "entity", "is_open_ended", "units", "units_done"),
    *("units_total", "tokens", "step", "parent__branch"),
)


@dataclass(frozen=True, slots=True)
class ChainNode:
    """A series of checkpoints, with the upper left corner of its node.

    ``checkpoint`` is its newest one, ``title`` how that ended, and ``edit`` what a fork edited before it.
    """

    checkpoint: Checkpoint
    x: float
    y: float
    colour: int
    shape: Shape
    count: int
    title: str
    edit: str
    name: str
    running: bool
    selected: bool

    @property
    def label(self) -> str:
        """Its label for screen readers."""
        count = ngettext("%(count)s checkpoint", "%(count)s checkpoints", self.count) % {
            "count": count_text(self.count)
        }
        parts = (self.name, self.checkpoint.branch, self.title, self.edit, count, gettext("running"))
        return ", ".join(filter(None, parts if self.running else parts[:-1]))

    @property
    def progress(self) -> str:
        """The finished units; empty where there are none."""
        return "" if self.checkpoint.total == 0 else self.checkpoint.progress

    @property
    def mark(self) -> Dot:
        """The dot that shows the status, as in the list."""
        return Dot(str(self.checkpoint.pk), *MARK, self.colour, self.shape, self.running)


@dataclass(frozen=True, slots=True)
class FoldNode:
    """A node that stands for several forks of one checkpoint, with its upper left corner.

    ``query`` holds the parameters of an address at which more of them are drawn; empty if no more can be.
    """

    x: float
    y: float
    forks: int
    count: int
    failures: int
    is_rest: bool
    query: str


@dataclass(frozen=True, slots=True)
class WantedGraph:
    """What of a run is drawn: all, a branch, or the ``failed`` or ``starred`` ones, with their ancestors.

    ``opened`` is how many of the folded forks of a checkpoint are drawn, by its id; an empty id means starts.
    """

    at: str = ""
    only: str = ""
    branch: str = ""
    opened: Mapping[str, int] = field(default_factory=dict)


def opened_query(opened: Mapping[str, int]) -> str:
    """Return the parameters of an address that name these opened forks, each after an ampersand."""
    pairs = [("opened", f"{count}:{key}") for key, count in opened.items()]
    return f"&{urlencode(pairs)}" if pairs else ""


@dataclass(frozen=True, slots=True)
class Path:
    """The line to a node from its parent. ``stroke`` says how it is drawn."""

    path: str
    colour: int
    stroke: str


@dataclass(frozen=True, slots=True)
class RunGraph:
    """The nodes of a run and the lines between them, in CSS pixels."""

    width: float
    height: float
    nodes: tuple[ChainNode, ...]
    paths: tuple[Path, ...]
    folds: tuple[FoldNode, ...] = ()
    node_width: int = graphs.NODE_WIDTH
    node_height: int = graphs.NODE_HEIGHT

    @property
    def count_x(self) -> int:
        """The x coordinate at which a node's count ends."""
        return self.node_width - 10

    @property
    def view_box(self) -> str:
        """The whole lineage, with space for the outlines of nodes."""
        return f"{-MARGIN} {-MARGIN} {self.width + 2 * MARGIN:g} {self.height + 2 * MARGIN:g}"


def graph_of(run: Run, wanted: WantedGraph) -> RunGraph:
    """Return the graph of a run, with the node of the selected checkpoint marked. Raises NoLayout."""
    # Rows are read as tuples: a run may have 100,000.
    found = run.checkpoints.order_by("row").values_list("pk", "parent_id", "branch", "parent_link")
    chains, chain_of = graphs.collapse(_picked(run, wanted, [graphs.Link(*one) for one in found]))
    if not chains:
        return RunGraph(0, 0, (), ())
    styles = run_styles(run)
    named = {one: pk for pk, one in _named(run, [wanted.at, *wanted.opened]).items()}
    selected = chain_of.get(named.get(wanted.at, 0))
    opened: dict[int | None, int] = {
        chain_of[named[one]]: count for one, count in wanted.opened.items() if named.get(one) in chain_of
    }
    if "" in wanted.opened:
        opened[None] = wanted.opened[""]
    always = [
        *([] if selected is None else [selected]),
        *(chain_of[pk] for pk in styles.running if pk in chain_of),
    ]
    shown, places = graphs.fold_forks(chains, always, opened)
    layout = graphs.lay_out(shown)
    newest = run.checkpoints.select_related("parent").only(*_NODE_COLUMNS)
    last = newest.in_bulk([chain.last for chain in shown])
    edits = {places[chain_of[pk]]: text for pk, text in styles.edited.items() if pk in chain_of}
    running = {places[chain_of[pk]] for pk in styles.running if pk in chain_of}
    failures = _failures(run, chains, chain_of, places) if any(chain.forks for chain in shown) else {}
    can_open = sum(not chain.forks for chain in shown) < graphs.MAX_DRAWN
    nodes, folds = [], []
    for number, (x, y) in layout.centres.items():
        chain, corner = shown[number], (x - graphs.NODE_WIDTH / 2, y - graphs.NODE_HEIGHT / 2)
        if chain.forks:
            parent = None if chain.parent is None else last[shown[chain.parent].last]
            folds.append(_fold(chain, parent, corner, failures.get(number, 0), wanted, can_open=can_open))
        else:
            nodes.append(
                _node(
                    chain,
                    last[chain.last],
                    corner,
                    styles,
                    edit=edits.get(number, ""),
                    running=number in running,
                    selected=selected is not None and places[selected] == number,
                )
            )
    paths = (
        Path(path, styles.colours.get(shown[number].branch, 0), shown[number].parent_link)
        for number, path in layout.paths.items()
    )
    return RunGraph(layout.width, layout.height, tuple(nodes), tuple(paths), tuple(folds))


def _picked(run: Run, wanted: WantedGraph, links: Sequence[graphs.Link]) -> list[graphs.Link]:
    """Return the chosen checkpoints and all their ancestors; every checkpoint if none were chosen."""
    if not wanted.only and not wanted.branch:
        return list(links)
    picked = run.checkpoints.all()
    if wanted.only:
        picked = picked.filter(chosen(run, wanted.only))
    if wanted.branch:
        picked = picked.filter(branch=wanted.branch)
    parents = {link.key: link.parent for link in links}
    kept: set[int] = set()
    for pk in picked.values_list("pk", flat=True):
        at: int | None = pk
        while at is not None and at not in kept:
            kept.add(at)
            at = parents.get(at)
    return [link for link in links if link.key in kept]


def _named(run: Run, ids: Sequence[str]) -> dict[int, str]:
    found = run.checkpoints.filter(checkpoint_id__in=[one for one in ids if one])
    return dict(found.values_list("pk", "checkpoint_id"))


def _failures(
    run: Run, chains: Sequence[graphs.Chain], chain_of: Mapping[int, int], places: Sequence[int]
) -> dict[int, int]:
    """Return how many chains of each node ended with a failure."""
    found = run.checkpoints.filter(failed()).values_list("pk", flat=True)
    ended = (chain_of[pk] for pk in found if pk in chain_of and chains[chain_of[pk]].last == pk)
    return Counter(places[number] for number in ended)


def _fold(
    chain: graphs.Chain,
    parent: Checkpoint | None,
    corner: tuple[float, float],
    failures: int,
    wanted: WantedGraph,
    *,
    can_open: bool,
) -> FoldNode:
    key = parent.checkpoint_id if parent else ""
    count = wanted.opened.get(key, 0)
    return FoldNode(
        x=round(corner[0], 1),
        y=round(corner[1], 1),
        forks=chain.forks,
        count=chain.count,
        failures=failures,
        is_rest=count > 0,
        query=opened_query({**wanted.opened, key: 2 * count or OPENED_AT_FIRST}) if can_open else "",
    )


def _node(
    chain: graphs.Chain,
    checkpoint: Checkpoint,
    corner: tuple[float, float],
    styles: RunStyles,
    *,
    edit: str,
    running: bool,
    selected: bool,
) -> ChainNode:
    annotation = styles.annotations.branches.get(chain.branch)
    return ChainNode(
        checkpoint=checkpoint,
        x=round(corner[0], 1),
        y=round(corner[1], 1),
        colour=styles.colours.get(chain.branch, 0),
        shape=shape_of(checkpoint.trigger),
        count=chain.count,
        title=title_of(checkpoint),
        edit=edit,
        name=annotation.name if annotation else "",
        running=running,
        selected=selected,
    )


# The statuses of a run's units at a checkpoint, including units of the runs that it called.


# Only this many of the newest checkpoints of a run are read.
MAX_ROWS = 2_000
MAX_CALLED = 100
# The statuses of units that ran in an earlier step, and in the last one.
RAN, DONE = "ran", "done"


def unit_statuses(run: Run, checkpoint: Checkpoint) -> dict[str, str]:
    """The status of each unit since the last input, by its name.

    Units of called runs are named ``outer/inner``. A unit that ran and is pending again is pending.
    """
    statuses: dict[str, str] = {}
    path = _path_to(run, checkpoint)
    for row in path:
        _add_statuses(statuses, row.units, row.pk == checkpoint.pk)
    prefix = path_of(run)
    named = {inside(prefix, name): status for name, status in statuses.items()}
    for called in _called_from(run, {row.checkpoint_id for row in path}):
        inner: dict[str, str] = {}
        for row in called.checkpoints.order_by("row")[:MAX_ROWS]:
            is_last = row.checkpoint_id == called.head and called.called_from == checkpoint.checkpoint_id
            _add_statuses(inner, row.units, is_last)
        named |= {inside(path_of(called), name): status for name, status in inner.items()}
    return named


def path_of(run: Run) -> str:
    """The unit that called this run, after those that called the callers; empty for a separate run."""
    return SEPARATOR.join(engine_of(run.location).calling_units(run.namespace))


def inside(prefix: str, name: str) -> str:
    """The name of a unit of a called run."""
    return f"{prefix}{SEPARATOR}{name}" if prefix else name


def _add_statuses(statuses: dict[str, str], units: list[list[str]], is_last: bool) -> None:
    for name, status in units:
        if status == DONE:
            statuses[name] = DONE if is_last else RAN
        elif is_last:
            statuses[name] = status


def _path_to(run: Run, checkpoint: Checkpoint) -> list[Checkpoint]:
    """The checkpoint and those before it up to the last start, oldest first."""
    rows = run.checkpoints.filter(row__lte=checkpoint.row).order_by("-row")
    by_pk = {
        row.pk: row for row in rows.only("run", "parent", "units", "trigger", "checkpoint_id")[:MAX_ROWS]
    }
    engine, path, at = engine_of(run.location), [], by_pk.get(checkpoint.pk)
    while at is not None:
        path.append(at)
        is_start = engine.is_start(at.trigger) and at.pk != checkpoint.pk
        parent = None if is_start else by_pk.get(at.parent_id or 0)
        # Each parent is read once, since recorded parents may contradict each other.
        at = parent if parent not in path else None
    return path[::-1]


def _called_from(run: Run, checkpoint_ids: set[str]) -> Iterator[Run]:
    """The runs that were called after these checkpoints, and those that they called."""
    waiting = list(run.called_runs.filter(called_from__in=checkpoint_ids)[:MAX_CALLED])
    seen = 0
    while waiting and seen < MAX_CALLED:
        seen += 1
        called = waiting.pop(0)
        yield called
        waiting += called.called_runs.all()[:MAX_CALLED]


# The graph of a run's units: as the project's code defines it, or inferred from which ran after which.


MAX_NAME = 28
START, END = "start", "end"
# The names of the code's start and end, which may also be names of units.
OWN_START, OWN_END = "__start__", "__end__"


@dataclass(frozen=True, slots=True)
class ShownUnit:
    """A box of the graph. ``status`` is the unit's status at the selected checkpoint, ``end``, or empty."""

    name: str
    status: str
    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> float:
        """The x coordinate of the left edge, computed from the middle."""
        return -self.width / 2

    @property
    def top(self) -> float:
        """The y coordinate of the upper edge, computed from the middle."""
        return -self.height / 2


@dataclass(frozen=True, slots=True)
class ShownEdge:
    """An edge with its SVG path."""

    edge: GraphEdge
    path: str

    @property
    def kind(self) -> str:
        """How it is drawn: ``conditional``, ``inferred`` or ``fixed``."""
        if self.edge.is_conditional:
            return "conditional"
        return "inferred" if self.edge.is_inferred else "fixed"


@dataclass(frozen=True, slots=True)
class ShownFrame:
    """The frame around a called graph, with the status of the unit that calls it."""

    frame: Frame
    status: str


@dataclass(frozen=True, slots=True)
class UnitGraph:
    """The drawn graph. ``is_inferred`` means that the code's graph is not known."""

    drawing: UnitDrawing
    units: tuple[ShownUnit, ...]
    edges: tuple[ShownEdge, ...]
    frames: tuple[ShownFrame, ...]
    is_inferred: bool

    @property
    def has_conditions(self) -> bool:
        return any(one.edge.is_conditional for one in self.edges)

    @property
    def has_unknown(self) -> bool:
        """Whether a unit ran that is not in the code's graph."""
        return not self.is_inferred and any(one.edge.is_inferred for one in self.edges)


@dataclass(frozen=True, slots=True)
class PlainGraph:
    """The units and edges, without a layout. ``statuses`` has units that contain others as well."""

    names: tuple[str, ...]
    edges: tuple[GraphEdge, ...]
    statuses: Mapping[str, str]
    is_inferred: bool

    @property
    def units(self) -> dict[str, str]:
        """The units by their status, which is empty if they did not run."""
        return {name: self.statuses.get(name, "") for name in self.names}


def unit_graph_of(
    run: Run, checkpoint: Checkpoint, compiled: Mapping[str, Any] | None = None
) -> UnitGraph | None:
    """Return the drawn graph as of a checkpoint; None if no unit is known. Raises NoLayout."""
    graph = plain_graph_of(run, checkpoint, compiled)
    return _drawn_units(graph) if graph else None


def plain_graph_of(
    run: Run, checkpoint: Checkpoint, compiled: Mapping[str, Any] | None = None
) -> PlainGraph | None:
    """Return the graph as of a checkpoint; None if no unit is known.

    ``compiled`` is what the project's code defines, as a preflight check reports it. Units that ran and that
    it lacks are added.
    """
    statuses = unit_statuses(run, checkpoint)
    names, edges = _defined_graph(compiled) if compiled else ([], [])
    is_inferred = not names
    edges += _missing_edges(_recorded_edges(run), names, has_code=not is_inferred)
    names = list(dict.fromkeys([*names, *(name for edge in edges for name in (edge.first, edge.second))]))
    if not names:
        return None
    return PlainGraph(tuple(names), tuple(edges), statuses, is_inferred)


def _drawn_units(graph: PlainGraph) -> UnitGraph:
    names, statuses = graph.names, graph.statuses
    numbers = {name: number for number, name in enumerate(names)}
    shown = [_shown_name(name) for name in names]
    by_numbers = {(numbers[edge.first], numbers[edge.second]): edge for edge in graph.edges}
    drawing = draw_units(names, shown, list(by_numbers))
    units = tuple(_unit(box, names[box.number], shown[box.number], statuses) for box in drawing.boxes)
    lines = tuple(ShownEdge(by_numbers[one.first, one.second], one.path) for one in drawing.paths)
    frames = tuple(ShownFrame(frame, statuses.get(frame.group, "")) for frame in drawing.frames)
    return UnitGraph(drawing, units, lines, frames, graph.is_inferred)


def _unit(box: Box, name: str, shown: str, statuses: Mapping[str, str]) -> ShownUnit:
    status = "end" if name in (OWN_START, OWN_END) else statuses.get(name, "")
    return ShownUnit(shown, status, box.x, box.y, box.width, box.height)


def _shown_name(name: str) -> str:
    last = name.rpartition(SEPARATOR)[2]
    return {OWN_START: START, OWN_END: END}.get(last, last)[:MAX_NAME]


def _defined_graph(compiled: Mapping[str, Any]) -> tuple[list[str], list[GraphEdge]]:
    """The units and edges of the code's graph."""
    names = [str(name) for name in compiled.get("nodes") or []]
    found = compiled.get("edges") or []
    edges = [GraphEdge(str(a), str(b), bool(when), str(label)) for a, b, when, label in found]
    return names, [edge for edge in edges if edge.first in names and edge.second in names]


def _missing_edges(recorded: list[tuple[str, str]], names: list[str], *, has_code: bool) -> list[GraphEdge]:
    """The recorded edges to and from units that the code's graph lacks; all of them if there is none."""
    groups = {name.rpartition(SEPARATOR)[0] for name in names}
    unknown = {name for edge in recorded for name in edge} - set(names) - groups - {OWN_START}
    return [
        GraphEdge(first, second, is_inferred=True)
        for first, second in recorded
        if not has_code or (second in unknown or (first in unknown and second not in groups))
    ]


def _recorded_edges(run: Run) -> list[tuple[str, str]]:
    """Return which unit ran directly after which, each pair once, in the order in which they did."""
    rows = run.checkpoints.order_by("-row").values_list("pk", "parent_id", "units", "trigger")[:MAX_ROWS]
    ran: dict[int, list[str]] = {}
    edges: dict[tuple[str, str], None] = {}
    prefix = path_of(run)
    for pk, parent, units, trigger in reversed(list(rows)):
        before = ran.get(parent or 0, [OWN_START])
        done = [inside(prefix, name) for name, status in units if status == "done" and name]
        pending = [inside(prefix, name) for name, status in units if status != "done" and name]
        edges.update(dict.fromkeys((first, name) for first in before for name in done))
        # Pending units follow the units that ran last.
        edges.update(dict.fromkeys((first, name) for first in done or before for name in pending))
        ran[pk] = [OWN_START] if trigger.startswith("input") else done or before
    return list(edges)
