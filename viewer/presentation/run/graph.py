"""The graph of a run: each series of checkpoints without a fork is one node."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.utils.translation import gettext, ngettext

from viewer.formats import count_text
from viewer.models import Checkpoint, Run
from viewer.presentation.run.branches import RunStyles, shape_of, title_of
from viewer.presentation.run.visible import chosen, failed
from viewer.presentation.run.window import run_styles
from viewer.records.lineage import graphs
from viewer.records.lineage.drawing import Dot, Shape

# Where a node's dot is, in pixels from its corner.
MARK = (17, 14)
MARGIN = 12
# How many folded forks the first press draws. Each further one draws twice as many.
OPENED_AT_FIRST = 50
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
    newest = run.checkpoints.select_related("parent").only(*_SHOWN)
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
