"""The graph of a run's units, and their statuses at a checkpoint."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from viewer.engines import engine_of
from viewer.engines.contents import GraphEdge
from viewer.models import Checkpoint, Run
from viewer.records.lineage.graphs import SEPARATOR, Box, Frame, UnitDrawing, draw_units

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
        _add(statuses, row.units, row.pk == checkpoint.pk)
    prefix = path_of(run)
    named = {inside(prefix, name): status for name, status in statuses.items()}
    for called in _called_from(run, {row.checkpoint_id for row in path}):
        inner: dict[str, str] = {}
        for row in called.checkpoints.order_by("row")[:MAX_ROWS]:
            is_last = row.checkpoint_id == called.head and called.called_from == checkpoint.checkpoint_id
            _add(inner, row.units, is_last)
        named |= {inside(path_of(called), name): status for name, status in inner.items()}
    return named


def path_of(run: Run) -> str:
    """The unit that called this run, after those that called the callers; empty for a separate run."""
    return SEPARATOR.join(engine_of(run.location).calling_units(run.namespace))


def inside(prefix: str, name: str) -> str:
    """The name of a unit of a called run."""
    return f"{prefix}{SEPARATOR}{name}" if prefix else name


def _add(statuses: dict[str, str], units: list[list[str]], is_last: bool) -> None:
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
    return _drawn(graph) if graph else None


def plain_graph_of(
    run: Run, checkpoint: Checkpoint, compiled: Mapping[str, Any] | None = None
) -> PlainGraph | None:
    """Return the graph as of a checkpoint; None if no unit is known.

    ``compiled`` is what the project's code defines, as a preflight check reports it. Units that ran and that
    it lacks are added.
    """
    statuses = unit_statuses(run, checkpoint)
    names, edges = _defined(compiled) if compiled else ([], [])
    is_inferred = not names
    edges += _missing(_recorded(run), names, has_code=not is_inferred)
    names = list(dict.fromkeys([*names, *(name for edge in edges for name in (edge.first, edge.second))]))
    if not names:
        return None
    return PlainGraph(tuple(names), tuple(edges), statuses, is_inferred)


def _drawn(graph: PlainGraph) -> UnitGraph:
    names, statuses = graph.names, graph.statuses
    numbers = {name: number for number, name in enumerate(names)}
    shown = [_shown(name) for name in names]
    by_numbers = {(numbers[edge.first], numbers[edge.second]): edge for edge in graph.edges}
    drawing = draw_units(names, shown, list(by_numbers))
    units = tuple(_unit(box, names[box.number], shown[box.number], statuses) for box in drawing.boxes)
    lines = tuple(ShownEdge(by_numbers[one.first, one.second], one.path) for one in drawing.paths)
    frames = tuple(ShownFrame(frame, statuses.get(frame.group, "")) for frame in drawing.frames)
    return UnitGraph(drawing, units, lines, frames, graph.is_inferred)


def _unit(box: Box, name: str, shown: str, statuses: Mapping[str, str]) -> ShownUnit:
    status = "end" if name in (OWN_START, OWN_END) else statuses.get(name, "")
    return ShownUnit(shown, status, box.x, box.y, box.width, box.height)


def _shown(name: str) -> str:
    last = name.rpartition(SEPARATOR)[2]
    return {OWN_START: START, OWN_END: END}.get(last, last)[:MAX_NAME]


def _defined(compiled: Mapping[str, Any]) -> tuple[list[str], list[GraphEdge]]:
    """The units and edges of the code's graph."""
    names = [str(name) for name in compiled.get("nodes") or []]
    edges = [GraphEdge(str(a), str(b), bool(when), str(label)) for a, b, when, label in compiled["edges"]]
    return names, [edge for edge in edges if edge.first in names and edge.second in names]


def _missing(recorded: list[tuple[str, str]], names: list[str], *, has_code: bool) -> list[GraphEdge]:
    """The recorded edges to and from units that the code's graph lacks; all of them if there is none."""
    groups = {name.rpartition(SEPARATOR)[0] for name in names}
    unknown = {name for edge in recorded for name in edge} - set(names) - groups - {OWN_START}
    return [
        GraphEdge(first, second, is_inferred=True)
        for first, second in recorded
        if not has_code or (second in unknown or (first in unknown and second not in groups))
    ]


def _recorded(run: Run) -> list[tuple[str, str]]:
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
