"""The graph of a run: each series of checkpoints without a fork is one node."""

from dataclasses import dataclass

from django.utils.translation import gettext, ngettext

from viewer.formats.amounts import count_text
from viewer.lineage.drawing import Dot, Shape
from viewer.lineage.run_graph import NODE_HEIGHT, NODE_WIDTH, Chain, Link, collapse, lay_out
from viewer.models import Checkpoint, Run
from viewer.presentation.run.rows import RunStyles
from viewer.presentation.run.triggers import shape_of, title_of
from viewer.presentation.run.window import run_styles

# Where a node's dot is, in pixels from its corner.
MARK = (17, 14)
MARGIN = 12
# The columns of its newest checkpoint that a node shows.
_SHOWN = (
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
    node_width: int = NODE_WIDTH
    node_height: int = NODE_HEIGHT

    @property
    def count_x(self) -> int:
        """The x coordinate at which a node's count ends."""
        return self.node_width - 10

    @property
    def view_box(self) -> str:
        """The whole lineage, with space for the outlines of nodes."""
        return f"{-MARGIN} {-MARGIN} {self.width + 2 * MARGIN:g} {self.height + 2 * MARGIN:g}"


def graph_of(run: Run, at: str) -> RunGraph:
    """Return the graph of a run, with the node of the checkpoint ``at`` selected. Raises NoLayout."""
    # Rows are read as tuples: a run may have 100,000.
    found = run.checkpoints.order_by("row").values_list("pk", "parent_id", "branch", "parent_link")
    chains, chain_of = collapse([Link(*one) for one in found])
    layout = lay_out(chains)
    styles = run_styles(run)
    newest = run.checkpoints.select_related("parent").only(*_SHOWN)
    last = newest.in_bulk([chain.last for chain in chains])
    selected = run.checkpoints.filter(checkpoint_id=at).values_list("pk", flat=True).first() if at else None
    edits = {chain_of[pk]: text for pk, text in styles.edited.items() if pk in chain_of}
    running = {chain_of[pk] for pk in styles.running if pk in chain_of}
    nodes = (
        _node(
            chains[number],
            last[chains[number].last],
            (x - NODE_WIDTH / 2, y - NODE_HEIGHT / 2),
            styles,
            edit=edits.get(number, ""),
            running=number in running,
            selected=selected is not None and chain_of.get(selected) == number,
        )
        for number, (x, y) in layout.centres.items()
    )
    paths = (
        Path(path, styles.colours.get(chains[number].branch, 0), chains[number].parent_link)
        for number, path in layout.paths.items()
    )
    return RunGraph(layout.width, layout.height, tuple(nodes), tuple(paths))


def _node(
    chain: Chain,
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
