"""The graph of a run's units, inferred from which of them ran after which."""

from dataclasses import dataclass

from viewer.lineage.unit_graph import UnitDrawing, draw_units
from viewer.models import Checkpoint, Run

# The number of the newest checkpoints that the edges are inferred from.
MAX_ROWS = 2_000
MAX_NAME = 28
START = "start"


@dataclass(frozen=True, slots=True)
class ShownUnit:
    """A box of the graph. ``status`` is that after the selected checkpoint, or ``done`` or empty."""

    name: str
    status: str
    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> float:
        """The left edge, from the middle."""
        return -self.width / 2

    @property
    def top(self) -> float:
        """The upper edge, from the middle."""
        return -self.height / 2


@dataclass(frozen=True, slots=True)
class UnitGraph:
    """The drawing, its boxes, and its edges as names."""

    drawing: UnitDrawing
    units: tuple[ShownUnit, ...]
    edges: tuple[tuple[str, str], ...]


def unit_graph_of(run: Run, checkpoint: Checkpoint) -> UnitGraph | None:
    """Return the graph as of a checkpoint; None if no unit is known. Raises NoLayout."""
    edges = _edges(run)
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    if not names:
        return None
    numbers = {name: number for number, name in enumerate(names)}
    shown = [name[:MAX_NAME] for name in names]
    drawing = draw_units(shown, [(numbers[first], numbers[second]) for first, second in edges])
    # The last status of a unit that is listed twice is the pending one.
    statuses = dict(checkpoint.units)
    boxes = [
        ShownUnit(shown[box.number], statuses.get(names[box.number], ""), box.x, box.y, box.width, box.height)
        for box in drawing.boxes
    ]
    return UnitGraph(drawing, tuple(boxes), tuple(edges))


def _edges(run: Run) -> list[tuple[str, str]]:
    """Return which unit ran directly after which, each pair once, in the order in which they did."""
    rows = run.checkpoints.order_by("-row").values_list("pk", "parent_id", "units", "trigger")[:MAX_ROWS]
    ran: dict[int, list[str]] = {}
    edges: dict[tuple[str, str], None] = {}
    for pk, parent, units, trigger in reversed(list(rows)):
        before = ran.get(parent or 0, [START])
        done = [name for name, status in units if status == "done" and name]
        pending = [name for name, status in units if status != "done" and name]
        edges.update(dict.fromkeys((first, name) for first in before for name in done))
        # What is pending follows what ran last.
        edges.update(dict.fromkeys((first, name) for first in done or before for name in pending))
        ran[pk] = [START] if trigger.startswith("input") else done or before
    return list(edges)
