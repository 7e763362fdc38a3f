"""Parent ids, branches and event sets -> an ordered forest, with inferred parents. Pure."""

import re
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from heapq import heapify, heappop, heappush

from viewer.messages.message import UserFacingError

# Infers parents that were not recorded from the event record. Pure functions.
#
# Every checkpoint repeats the events of its ancestors, so its parent is the checkpoint of the same run whose
# set of events is the largest proper subset of its own. Comparing every pair would be quadratic.
# Instead each set is indexed by its rarest event: every superset contains that event, so a node finds
# all its ancestors through its own events.


# Maximum number of compared sets with the same rarest event, the largest first.
MAX_CANDIDATES = 200


class Inference:
    """The inferred parents of nodes, which are given as a list of (run key, event ids)."""

    def __init__(self, nodes: Sequence[tuple[str, Collection[Hashable]]]) -> None:
        self._nodes = nodes
        self._members: dict[str, list[int]] = {}
        self._indexes: dict[str, _Run] = {}
        for index, (run_key, event_ids) in enumerate(nodes):
            if run_key and event_ids:
                self._members.setdefault(run_key, []).append(index)
        self._smallest = {
            run_key: min(len(nodes[index][1]) for index in members)
            for run_key, members in self._members.items()
        }

    def parent_of(self, index: int) -> int | None:
        """The position of the inferred parent, or None if the events imply none."""
        run_key, event_ids = self._nodes[index]
        if len(event_ids) <= self._smallest.get(run_key, len(event_ids)):
            return None
        if run_key not in self._indexes:
            sets = [(member, frozenset(self._nodes[member][1])) for member in self._members[run_key]]
            self._indexes[run_key] = _Run(sets)
        return self._indexes[run_key].parent_of(frozenset(event_ids))


class _Run:
    """The distinct event sets of one run, indexed by their rarest events."""

    def __init__(self, sets: Sequence[tuple[int, frozenset[Hashable]]]) -> None:
        counts = Counter(event for _, events in sets for event in events)
        first: dict[frozenset[Hashable], int] = {}
        for index, events in sets:
            first.setdefault(events, index)
        self._filed: dict[Hashable, list[tuple[int, frozenset[Hashable]]]] = {}
        for events, index in sorted(first.items(), key=lambda item: (-len(item[0]), item[1])):
            rarest = min(events, key=counts.__getitem__)
            self._filed.setdefault(rarest, []).append((index, events))
        self._rarest = frozenset(self._filed)

    def parent_of(self, events: frozenset[Hashable]) -> int | None:
        best: tuple[int, int] | None = None
        for event in self._rarest & events:
            for index, candidate in self._filed.get(event, ())[:MAX_CANDIDATES]:
                rank = (-len(candidate), index)
                if best is not None and rank >= best:
                    break
                if candidate < events:
                    best = rank
                    break
        return None if best is None else best[1]


# Parent ids, branches and event sets -> an ordered forest. Pure.
#
# oldest                                             newest
# a ── b ── c ───────────────── d      (branch main)
# └─────── e ── f                 (branch what-if, forked from b)
#
# One connected lineage is one run. Parents come before their children; other nodes are ordered by their
# recorded time, then by their id, so the same checkpoints always have the same order.


class ParentLink(StrEnum):
    """How the parent of a node is known."""

    RECORDED = "recorded"
    INFERRED = "inferred"
    # The recorded parent is missing. The node may have an inferred ancestor as its parent.
    MISSING = "missing"
    ROOT = "root"


class FaultCode(StrEnum):
    """The kinds of contradictions in recorded parents."""

    SELF_PARENT = "self_parent"
    CYCLE = "cycle"
    DUPLICATE_ID = "duplicate_id"


@dataclass(frozen=True, slots=True)
class Node:
    """A checkpoint, before its lineage is known. ``key`` is unique; ``checkpoint_id`` should be.

    ``event_ids`` are only used to infer parents and to tell attempts apart. They may be empty if all parents
    of the run are recorded and none has two children on its branch.
    """

    key: str
    checkpoint_id: str
    parent_id: str | None
    run_key: str
    branch: str
    created_at: datetime | None
    event_ids: Collection[Hashable] = field(default=(), repr=False)
    event_count: int = 0


@dataclass(frozen=True, slots=True)
class LineageNode:
    """A node in its lineage. ``parent`` is a key; ``missing_id`` is a recorded parent that is missing."""

    key: str
    parent: str | None
    parent_link: ParentLink
    missing_id: str | None
    # The recorded branch, or ``main, attempt 2`` for its second continuation.
    branch: str
    # It is the newest of its branch, so the branch's name is shown here.
    is_branch_head: bool


@dataclass(frozen=True, slots=True)
class LineageFault:
    """A contradiction in the recorded parents. ``checkpoint_ids`` are the engine's, in order."""

    code: FaultCode
    checkpoint_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lineage:
    """One run: connected nodes, oldest first. ``run_key`` is the one of its oldest node."""

    run_key: str
    nodes: tuple[LineageNode, ...]
    faults: tuple[LineageFault, ...]


# Runs of a location, ordered by start.
Forest = tuple[Lineage, ...]


@dataclass(slots=True)
class _Link:
    parent: int | None = None
    parent_link: ParentLink = ParentLink.ROOT
    missing_id: str | None = None


def build_forest(nodes: Sequence[Node]) -> Forest:
    """Return the lineages of these nodes, which may be in any order. Each node is in one lineage.

    A recorded parent that is missing, the node itself, or part of a cycle is reported as a fault.
    Raises ValueError if two nodes have the same key.
    """
    ordered = sorted(nodes, key=_moment)
    if len({node.key for node in ordered}) != len(ordered):
        raise ValueError("Every node needs a unique key.")
    by_id: dict[str, list[int]] = {}
    for index, node in enumerate(ordered):
        by_id.setdefault(node.checkpoint_id, []).append(index)
    faults = [(FaultCode.DUPLICATE_ID, same) for same in by_id.values() if len(same) > 1]
    links, self_parents = _links(ordered, by_id)
    faults += self_parents + _cut_cycles(ordered, links)
    order = _parents_first(links)
    return _lineages(ordered, links, order, faults)


def _moment(node: Node) -> tuple[float, str, str]:
    """The sort key of nodes that are not related. Nodes without a time come first."""
    if node.created_at is None:
        return (float("-inf"), node.checkpoint_id, node.key)
    at = node.created_at if node.created_at.tzinfo else node.created_at.replace(tzinfo=UTC)
    return (at.timestamp(), node.checkpoint_id, node.key)


Fault = tuple[FaultCode, list[int]]


def _links(nodes: Sequence[Node], by_id: Mapping[str, list[int]]) -> tuple[list[_Link], list[Fault]]:
    """The recorded or inferred link of each node to its parent. The links may contain cycles."""
    inference = Inference([(node.run_key, node.event_ids) for node in nodes])
    links = [_Link() for _ in nodes]
    faults: list[Fault] = []
    for index, (node, link) in enumerate(zip(nodes, links, strict=True)):
        found = by_id.get(node.parent_id or "", [])
        if node.parent_id == node.checkpoint_id:
            faults.append((FaultCode.SELF_PARENT, [index]))
            found = []
        if node.parent_id is None:
            link.parent = inference.parent_of(index)
            link.parent_link = ParentLink.ROOT if link.parent is None else ParentLink.INFERRED
        elif found:
            link.parent, link.parent_link = _likeliest(nodes, node, found), ParentLink.RECORDED
        else:
            link.parent = inference.parent_of(index)
            link.parent_link, link.missing_id = ParentLink.MISSING, node.parent_id
    return links, faults


def _likeliest(nodes: Sequence[Node], child: Node, found: list[int]) -> int:
    """The parent among nodes with the recorded id: preferably of the same run, then branch."""
    if len(found) == 1:
        return found[0]
    return min(
        found,
        key=lambda index: (nodes[index].run_key != child.run_key, nodes[index].branch != child.branch, index),
    )


def _cut_cycles(nodes: Sequence[Node], links: list[_Link]) -> list[Fault]:
    """Remove the parent of the earliest node of each cycle."""
    seen = [0] * len(links)  # 0 if not visited, else the number of the walk that visited it first
    faults: list[Fault] = []
    for start in range(len(links)):
        step: int | None = start
        walk = start + 1
        while step is not None and not seen[step]:
            seen[step] = walk
            step = links[step].parent
        if step is None or seen[step] != walk:
            continue
        cycle, at = [step], links[step].parent
        while at is not None and at != step:
            cycle.append(at)
            at = links[at].parent
        first = min(cycle)
        links[first] = _Link(None, ParentLink.MISSING, nodes[first].parent_id)
        faults.append((FaultCode.CYCLE, sorted(cycle)))
    return faults


def _parents_first(links: Sequence[_Link]) -> list[int]:
    """All indices in topological order; unrelated ones in ascending order."""
    children: list[list[int]] = [[] for _ in links]
    for index, link in enumerate(links):
        if link.parent is not None:
            children[link.parent].append(index)
    ready = [index for index, link in enumerate(links) if link.parent is None]
    heapify(ready)
    order: list[int] = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for child in children[index]:
            heappush(ready, child)
    return order


def _lineages(nodes: Sequence[Node], links: list[_Link], order: list[int], faults: list[Fault]) -> Forest:
    component = _components(nodes, links, order)
    members: dict[int, list[int]] = {}
    for index in order:
        members.setdefault(component[index], []).append(index)
    faults_of: dict[int, list[LineageFault]] = {}
    for code, indices in faults:
        fault = LineageFault(code, tuple(nodes[index].checkpoint_id for index in indices))
        for touched in sorted({component[index] for index in indices}):
            faults_of.setdefault(touched, []).append(fault)
    lineages = []
    for number, indices in members.items():
        labels = _branch_labels(nodes, links, indices)
        heads = _heads(nodes, links, labels)
        found = (_lineage_node(nodes, links[index], index, labels[index], heads) for index in indices)
        lineages.append(Lineage(nodes[indices[0]].run_key, tuple(found), tuple(faults_of.get(number, ()))))
    return tuple(lineages)


def _branch_labels(nodes: Sequence[Node], links: Sequence[_Link], indices: Sequence[int]) -> dict[int, str]:
    """The branch of each node of one run, by index, in the order of ``indices``: parents first.

    A resume writes on under the name of its branch. So of several continuations of a branch, the oldest keeps
    the name, and the others are numbered attempts. Checkpoints that threads of one process wrote at the same
    time also have one parent, but they share events that their parent lacks: these belong together.
    """
    recorded = {nodes[index].branch for index in indices}
    attempts: dict[str, int] = {}
    labels: dict[int, str] = {}
    siblings: dict[tuple[int, str], list[int]] = {}
    for index in indices:
        branch, parent = nodes[index].branch, links[index].parent
        if parent is None:
            labels[index] = branch
            attempts.setdefault(branch, 1)
            continue
        elders = siblings.setdefault((parent, branch), [])
        together = next((one for one in elders if _were_one_process(nodes, one, index, parent)), None)
        continues = nodes[parent].branch == branch and not elders
        if together is not None:
            labels[index] = labels[together]
        elif continues:
            labels[index] = labels[parent]
        elif branch not in attempts or not nodes[index].event_ids:
            labels[index] = branch
            attempts.setdefault(branch, 1)
        else:
            number = attempts[branch] + 1
            while attempt_label(branch, number) in recorded:
                number += 1
            attempts[branch], labels[index] = number, attempt_label(branch, number)
        elders.append(index)
    return labels


def _heads(nodes: Sequence[Node], links: Sequence[_Link], labels: Mapping[int, str]) -> dict[str, int]:
    """The newest node of each branch.

    Threads that write at the same time leave checkpoints that nothing continues. Of these, the one with the
    most events is the newest.
    """
    continued = {
        parent
        for index, label in labels.items()
        if (parent := links[index].parent) is not None and labels[parent] == label
    }
    roots: dict[int, int] = {}
    tips: dict[str, list[int]] = {}
    for index, label in labels.items():
        parent = links[index].parent
        roots[index] = index if parent is None else roots[parent]
        if index not in continued:
            tips.setdefault(label, []).append(index)
    return {
        label: max(
            (index for index in found if roots[index] == roots[found[-1]]),
            key=lambda index: (nodes[index].event_count, index),
        )
        for label, found in tips.items()
    }


def _were_one_process(nodes: Sequence[Node], elder: int, index: int, parent: int) -> bool:
    """Whether one process wrote both children of a node; also if their events are not known."""
    if not nodes[elder].event_ids or not nodes[index].event_ids:
        return True
    shared = set(nodes[elder].event_ids) & set(nodes[index].event_ids)
    return bool(shared - set(nodes[parent].event_ids))


def _components(nodes: Sequence[Node], links: Sequence[_Link], order: Sequence[int]) -> list[int]:
    """The number of each node's run. Connected nodes, and nodes with the same run key, are one run."""
    root = list(range(len(nodes)))
    for index in order:
        parent = links[index].parent
        if parent is not None:
            root[index] = root[parent]
    merged = list(range(len(nodes)))

    def top(index: int) -> int:
        while merged[index] != index:
            merged[index] = merged[merged[index]]
            index = merged[index]
        return index

    first_of: dict[str, int] = {}
    for index in order:
        if nodes[index].run_key:
            one, other = top(root[index]), top(first_of.setdefault(nodes[index].run_key, root[index]))
            merged[max(one, other)] = min(one, other)
    return [top(root[index]) for index in range(len(nodes))]


def _lineage_node(
    nodes: Sequence[Node], link: _Link, index: int, label: str, heads: Mapping[str, int]
) -> LineageNode:
    parent = None if link.parent is None else nodes[link.parent].key
    return LineageNode(
        nodes[index].key, parent, link.parent_link, link.missing_id, label, heads[label] == index
    )


# Names of branches. Pure functions.


# The most characters of a name, and bytes of each part of one, which is a folder.
MAX_CHARACTERS = 200
# Bytes that are kept for a number at the end of a name, and for "and-2-more" with a number.
NUMBER_BYTES, END_BYTES = 8, 32
# Characters of a name or value that a branch is named for, and how many edits are named.
MAX_PART, MAX_NAMED = 32, 2


class BranchRefused(UserFacingError):
    """The name is invalid or taken. The message says why, and how to correct it."""


def name_for(edits: Sequence[tuple[str, str]], taken: Collection[str]) -> str:
    """A free branch name for edits, each with what it changes and its new value, such as ``year-2030``.

    An empty value is not named: ``draft-edited``. An edit without a name, such as an answer, is its value.
    """
    parts = [_named(name, value) for name, value in edits]
    shown = [part for part in parts if part][:MAX_NAMED]
    more = len(edits) - len(shown)
    stem = beginning("-".join(shown), MAX_CHARACTERS - END_BYTES) or "fork"
    return free_name(f"{stem}-and-{more}-more" if more and shown else stem, taken)


def _named(name: str, value: str) -> str:
    name, value = _slug(name), _slug(value) if len(value) <= MAX_PART else ""
    if not name:
        return value
    return f"{name}-{value or 'edited'}"


def _slug(text: str) -> str:
    """The text in lower case, with hyphens for everything but letters and digits. Ends at a whole word."""
    words = re.sub(r"[^\w.]+|_", "-", text[: 4 * MAX_PART].lower()).strip("-.").split("-")
    kept = [words[0][:MAX_PART]]
    for word in words[1:]:
        if len("-".join([*kept, word])) > MAX_PART:
            break
        kept.append(word)
    return "-".join(word for word in (one.strip(".") for one in kept) if word)


def beginning(name: str, most: int) -> str:
    """The beginning of a part of a name that has at most this many bytes: letters may have several."""
    return name.encode()[:most].decode(errors="ignore").rstrip("-. ")


def free_name(name: str, taken: Collection[str]) -> str:
    """The name if it is free, else the name with the first free number appended."""
    if name not in taken:
        return name
    # Count on from a number that was appended before; a year in the name is not one.
    stem, _dash, number = name.rpartition("-")
    base = stem if stem in taken and number.isdigit() else name
    outer, slash, last = base[: MAX_CHARACTERS - NUMBER_BYTES].rpartition("/")
    begin = outer + slash + beginning(last, MAX_CHARACTERS - NUMBER_BYTES)
    return next(one for number in range(2, len(taken) + 3) if (one := f"{begin}-{number}") not in taken)


def attempt_label(branch: str, number: int) -> str:
    """The name of a later continuation of a branch. ``number`` is 2 or more."""
    return f"{branch}, attempt {number}"


def checked_branch(name: str, existing: Collection[str]) -> str:
    """Return the name of a new branch in addition to the ``existing`` ones. Raises BranchRefused.

    A branch is a folder below the location, so a name must not lead out of it.
    """
    if not name.strip():
        raise BranchRefused("branch.name_missing")
    if len(name) > MAX_CHARACTERS:
        raise BranchRefused("branch.name_too_long", most=MAX_CHARACTERS)
    if not name.isprintable() or "\\" in name:
        raise BranchRefused("branch.name_has_hidden_characters")
    parts = name.split("/")
    if any(not part.strip() or part != part.strip() or part in {".", ".."} for part in parts):
        raise BranchRefused("branch.name_has_empty_part")
    if "_p-" in name or "#" in name or any(len(part.encode()) > MAX_CHARACTERS for part in parts):
        raise BranchRefused("branch.name_reserved")
    if name in existing:
        raise BranchRefused("branch.exists", name=name)
    return name
