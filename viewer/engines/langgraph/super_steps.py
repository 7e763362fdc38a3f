"""Reads from a checkpoint's channels and writes which nodes ran in its super-step, and which run next."""

import re
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha1
from itertools import islice, product
from typing import Any, Self

from xxhash import xxh3_128_digest

from viewer.engines.langgraph import identifiers
from viewer.engines.langgraph.identifiers import NULL_TASK, is_late

# The indexes of writes that are not values of channels.
ERROR, SCHEDULED, INTERRUPT, RESUME = -1, -2, -3, -4
SENDS = "__pregel_tasks"
# What the functional API writes: the result of a task or an entry point, and what the next run begins with.
RETURN, END, PREVIOUS = "__return__", "__end__", "__previous__"
START = "__start__"
# Not a node: what a snapshot of a channel has changed in the versions that nodes have seen.
BUMPS = "__snapshot_bumps__"
# More digits than any version of LangGraph has.
MAX_DIGITS = 64
_PULL_PATH, _PUSH_PATH = "~__pregel_pull, ", "~__pregel_push, "
_LATE = re.compile(r"~~\d{10}", re.ASCII)
_CALLED = re.compile(r"~__pregel_push, (~.*), (\d{10})", re.ASCII | re.DOTALL)
_FLAG = re.compile(r", \d{10}$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The indexes of the writes of one task, and its path, which is empty in old stores."""

    task_id: str
    path: str
    indexes: frozenset[int]

    @property
    def status(self) -> str:
        """``done``, ``failed``, ``waiting`` or ``scheduled``.

        ``done`` comes first: the writes of a failure or an interrupt stay after the task has finished.
        """
        if any(index >= 0 for index in self.indexes):
            return "done"
        if ERROR in self.indexes:
            return "failed"
        return "waiting" if INTERRUPT in self.indexes else "scheduled"

    @property
    def is_late(self) -> bool:
        """Whether it is no task, but holds what a task of this step or a later one changed."""
        return is_late(self.task_id)

    @property
    def is_called(self) -> bool:
        """Whether a function called it, as far as its path says."""
        return bool(calls_in_path(self.path))


def attempts_in(writes: Iterable[tuple[str, str, int]]) -> list[Attempt]:
    """Return the tasks of one checkpoint. ``writes`` are the task, path and index of each row.

    What a command brought is no task.
    """
    indexes: dict[str, set[int]] = defaultdict(set)
    paths: dict[str, str] = {}
    for task, path, index in writes:
        if task == NULL_TASK:
            continue
        indexes[task].add(index)
        paths[task] = paths.get(task) or path
    return [Attempt(task, paths[task], frozenset(found)) for task, found in indexes.items()]


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty mapping."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> Sequence[Any]:
    """The value if it is a list, else an empty sequence."""
    return value if isinstance(value, list) else ()


def is_opaque(value: Any) -> bool:
    """Whether a decoded value is the placeholder of a value that cannot be decoded."""
    return isinstance(value, dict) and value.keys() == {"__opaque__", "encoding", "size"}


def fields_of(value: Any, *types: str) -> Any:
    """The fields of a decoded object of one of these classes; None for anything else."""
    name = value.get("__type__", "") if isinstance(value, dict) else ""
    return value.get("fields") if isinstance(name, str) and name.rpartition(".")[2] in types else None


def sent_nodes(checkpoint: Mapping[str, Any]) -> list[str]:
    """The node of each pending ``Send``."""
    values = mapping(checkpoint.get("channel_values")).get(SENDS)
    sends = sequence(values) or sequence(checkpoint.get("pending_sends"))
    found = (sequence(fields_of(send, "Send")) for send in sends)
    return [fields[0] for fields in found if len(fields) >= 2 and isinstance(fields[0], str)]


def next_nodes(checkpoint: Mapping[str, Any]) -> list[str]:
    """The nodes that run after a checkpoint, as far as its channels show."""
    return sorted(triggers_of(checkpoint)) + sent_nodes(checkpoint)


def triggers_of(checkpoint: Mapping[str, Any]) -> dict[str, list[str]]:
    """The nodes that the channels of a checkpoint trigger, each with the channels that do."""
    values, seen = mapping(checkpoint.get("channel_values")), mapping(checkpoint.get("versions_seen"))
    versions = mapping(checkpoint.get("channel_versions"))
    readers = _readers(seen)
    triggered: dict[str, list[str]] = defaultdict(list)
    for channel, value in values.items():
        for node in _triggered(channel, value, readers):
            if _is_newer(versions.get(channel), mapping(seen.get(node)).get(channel)):
                triggered[node].append(channel)
    return {node: sorted(dict.fromkeys(channels)) for node, channels in triggered.items()}


def is_last(checkpoint: Mapping[str, Any]) -> bool:
    """Whether nothing runs after a checkpoint that triggers no node, as far as its channels show.

    In the first versions, each node triggers the next through a channel named after itself. If no node has
    ever read that channel, only the graph knows whether one would: it has ended, or waits at a static
    breakpoint.
    """
    values, seen = mapping(checkpoint.get("channel_values")), mapping(checkpoint.get("versions_seen"))
    versions = mapping(checkpoint.get("channel_versions"))
    newest = max(map(_step_of, versions.values()), default=0)
    own = [name for name in seen if values.get(name) == name]
    read = {channel for channels in seen.values() for channel in mapping(channels)}
    return not any(_step_of(versions.get(name)) == newest and name not in read for name in own)


def next_by_others(checkpoint: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> list[str]:
    """The nodes that run next in the first versions, as far as checkpoints of other threads show.

    A checkpoint in which at least the same nodes have run is taken to be of the same graph.
    """
    values, seen = mapping(checkpoint.get("channel_values")), mapping(checkpoint.get("versions_seen"))
    read = {channel for channels in seen.values() for channel in mapping(channels)}
    unread = {name for name in seen if values.get(name) == name and name not in read}
    found = set[str]()
    for other in others if unread else ():
        readers = mapping(other.get("versions_seen"))
        if seen.keys() <= readers.keys():
            found |= {node for node, channels in readers.items() if unread & mapping(channels).keys()}
    # The versions that an interrupt has seen are of no node.
    return sorted(node for node in found if not node.startswith("__"))


def _readers(seen: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """By channel, the nodes that have read it."""
    readers: dict[str, list[str]] = defaultdict(list)
    for node, channels in seen.items():
        for channel in mapping(channels):
            readers[channel].append(node)
    return readers


def _triggered(channel: str, value: Any, readers: Mapping[str, Sequence[str]]) -> Iterable[str]:
    """The nodes that a value of this channel triggers. ``readers`` are the nodes that have read a channel."""
    kind, _colon, rest = channel.partition(":")
    if channel == START:
        # The function of an entry point reads its input itself. In other graphs, a node of this name does.
        found = [node for node in readers.get(START, ()) if node == START or not node.startswith("__")]
        return found or (START,)
    if kind in ("branch", "start") and rest:
        return (rest.rpartition(":")[2],)
    if kind == "join":
        names, _colon, node = rest.rpartition(":")
        arrived = sequence(fields_of(value, "set", "frozenset"))
        return (node,) if set(names.split("+")) <= {str(name) for name in arrived} else ()
    # In the first versions, the name of a node triggers the next node. Only earlier runs show which one.
    return readers.get(channel, ()) if value == channel else ()


def _is_newer(version: Any, seen: Any) -> bool:
    if seen is None:
        return True
    try:
        return bool(version > seen)
    except TypeError:
        return str(version) > str(seen)


def _step_of(version: Any) -> int:
    """The counter in a channel's version: 3 for ``3``, ``3.0`` and ``00000003.0.4711``; else 0."""
    if isinstance(version, int):
        return version
    text = str(version).partition(".")[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else 0


def nodes_that_ran(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The nodes that ran between a checkpoint and its child. A node occurs once for each ``Send`` to it."""
    seen, earlier = _read_versions(after), _read_versions(before)
    sent = sent_nodes(before)
    own = seen.keys() - sent
    ran = [
        node
        for node, versions in seen.items()
        if not node.startswith("__") and node in own and earlier.get(node) != versions
    ]
    return sorted(ran) + [node for node in sent if node in seen]


def _read_versions(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """The versions of channels that each node has read, without those that only a snapshot has changed."""
    seen = mapping(checkpoint.get("versions_seen"))
    marks = mapping(seen.get(BUMPS))
    if not marks:
        return dict(seen)
    return {
        node: {
            channel: marks.get(f"{node}:{channel}") if marks.get(f"{node}|{channel}") == version else version
            for channel, version in mapping(channels).items()
            if marks.get(f"{node}|{channel}") != version or f"{node}:{channel}" in marks
        }
        for node, channels in seen.items()
        if node != BUMPS
    }


def is_functional(checkpoint: Mapping[str, Any]) -> bool:
    """Whether a checkpoint is of a function of the functional API that has returned before."""
    return PREVIOUS in mapping(checkpoint.get("channel_versions"))


def node_in_path(path: str, sent: Sequence[str] = ()) -> str:
    """The node of the task with this path; empty if it is not known.

    ``sent`` are the nodes of the pending sends.
    """
    path = _LATE.sub("", path)
    if path.startswith(_PULL_PATH):
        return path.removeprefix(_PULL_PATH)
    number = path.removeprefix(_PUSH_PATH).partition(",")[0]
    if path.startswith(_PUSH_PATH) and number.isascii() and number.isdigit() and len(number) <= MAX_DIGITS:
        return sent[int(number)] if int(number) < len(sent) else ""
    return ""


def calls_in_path(path: str) -> list[tuple[str, int]]:
    """What the path of a task may say: the path of the function that called it, and the number of the call.

    Empty for a task that no function has called. Since 0.3, a flag follows the number.
    """
    matches = (_CALLED.fullmatch(one) for one in dict.fromkeys((path, _FLAG.sub("", path))))
    return [(match[1], int(match[2])) for match in matches if match]


# Finds the node of each task. Depending on the version, the task's path or its writes name it.
#
# The id of each task is a hash of the name of its node or function, among others. So a name is right if it
# gives the id.


# The most names that are tried. If the paths of calls are not stored: the most calls of each function, and
# of all.
MAX_NAMES = 200
MAX_CALLS, MAX_TRIED = 50, 10_000
_PULL, _PUSH = "__pregel_pull", "__pregel_push"


@dataclass(frozen=True, slots=True)
class Place:
    """Where tasks run: the namespace and the id of a checkpoint, and the step after it."""

    namespace: str
    checkpoint_id: str
    step: int

    @classmethod
    def after(cls, namespace: str, checkpoint_id: str, step: Any) -> Self:
        """Where the tasks after a checkpoint of this step run."""
        return cls(namespace, checkpoint_id, step + 1 if isinstance(step, int) else 0)

    def within(self, name: str, task_id: str) -> Self:
        """Where the functions run that a task of this place calls."""
        level = f"{name}:{task_id}"
        return replace(self, namespace=f"{self.namespace}|{level}" if self.namespace else level)


def named_attempts(
    attempts: Sequence[Attempt], checkpoint: Mapping[str, Any], hints: Mapping[str, str] | None = None
) -> list[tuple[Attempt, str]]:
    """Each task with its node; the node is empty if it is not known. ``hints`` are nodes by task id."""
    sent = sent_nodes(checkpoint)
    hints = hints or {}
    named = [
        (attempt, node_in_path(attempt.path, sent) or hints.get(attempt.task_id, "")) for attempt in attempts
    ]
    taken = Counter(node for _attempt, node in named)
    following = list((Counter(next_nodes(checkpoint)) - taken).elements())
    unnamed = [attempt for attempt, node in named if not node and not attempt.is_called]
    # If one task and one node remain, they belong together.
    if len(unnamed) == 1 and len(following) == 1 and following != [START]:
        named = [(one, node or ("" if one.is_called else following[0])) for one, node in named]
    return named


def open_nodes(
    named: Sequence[tuple[Attempt, str]], place: Place, checkpoint: Mapping[str, Any]
) -> list[str]:
    """The nodes that run next, without those that have finished. ``named`` are the tasks with their nodes."""
    following = next_nodes(checkpoint)
    if START in following:
        # Until the function of an entry point has returned once, only its task has its name.
        entry = next((name for one, name in named if _is_entry_point(one, name, place)), START)
        following = [entry if node == START else node for node in following]
    finished = Counter(node for one, node in named if one.status == "done" and not one.is_late)
    remaining: list[str] = []
    for node in following:
        if finished[node]:
            finished[node] -= 1
        else:
            remaining.append(node)
    return remaining


def _is_entry_point(attempt: Attempt, name: str, place: Place) -> bool:
    """Whether a task is that of the function of an entry point, which begins with the input."""
    if attempt.path:
        return bool(node_in_path(attempt.path)) and name != START
    starts = _task_ids(place, name, _PULL, START)
    return name != START and attempt.task_id in starts


def hints(grouped: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    """Nodes by task id, for the tasks whose writes name a node."""
    found: dict[str, str] = {}
    for task_id, writes in grouped.items():
        for write in writes:
            channel, value = str(write.get("channel")), write.get("value")
            if isinstance(value, str) and (channel.startswith("join:") or value == channel):
                found[task_id] = value
            for interrupt in interrupt_fields(value) if write["index"] == INTERRUPT else ():
                namespaces = sequence(interrupt.get("ns"))
                if namespaces and isinstance(namespaces[-1], str):
                    found[task_id] = identifiers.node_of(namespaces[-1])
    return found


def names_by_id(
    attempts: Sequence[Attempt], place: Place, checkpoint: Mapping[str, Any], names: Iterable[str] = ()
) -> dict[str, str]:
    """The names of nodes and functions by task id, for the tasks whose paths do not name them.

    Tried are the nodes that the checkpoint and its channels name, and ``names``.
    """
    sent = sent_nodes(checkpoint)
    named = {one.task_id: node_in_path(one.path, sent) for one in attempts}
    if all(named.values()):
        return {}
    seen = mapping(checkpoint.get("versions_seen"))
    known = dict.fromkeys((*triggers_of(checkpoint), *sent, *seen, *names))
    functions = [name for name in known if not name.startswith("__")][:MAX_NAMES]
    # By their paths, the tasks that may have called functions, as places.
    callers: dict[str, list[Place]] = defaultdict(list)
    for one in attempts:
        if one.path and named[one.task_id]:
            callers[one.path].append(place.within(named[one.task_id], one.task_id))
    found: dict[str, str] = {}
    for own_id, name, path in _nodes(place, checkpoint, functions):
        found[own_id] = name
        callers[path].append(place.within(name, own_id))
    if any(not one.path and one.task_id not in found for one in attempts):
        found.update(_calls(callers, functions))
    # A function is called by a task with a shorter path.
    for one in sorted(attempts, key=lambda one: len(one.path)):
        for path, number in calls_in_path(one.path):
            for caller, name in product(callers.get(path, ()), functions):
                if one.task_id in _task_ids(caller, name, _PUSH, path, str(number)):
                    found[one.task_id] = name
                    callers[one.path].append(caller.within(name, one.task_id))
    return {own_id: name for own_id, name in found.items() if named.get(own_id) == ""}


def _nodes(
    place: Place, checkpoint: Mapping[str, Any], functions: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """The ids, names and paths of the tasks that these nodes, and the pending sends, would be."""
    triggers = triggers_of(checkpoint)
    for name in (*functions, START):
        for own_id in _task_ids(place, name, _PULL, *(triggers.get(name) or (START,))):
            yield own_id, name, f"~{_PULL}, {name}"
    for number, node in enumerate(sent_nodes(checkpoint)[:MAX_NAMES]):
        for own_id in _task_ids(place, node, _PUSH, str(number)):
            yield own_id, node, f"~{_PUSH}, {number:010d}"


def _calls(callers: Mapping[str, Sequence[Place]], functions: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The ids and names of the first calls of each function by these callers."""
    called = (
        (path, caller, number, name)
        for number in range(MAX_CALLS)
        for path, places in callers.items()
        for caller, name in product(places, functions)
    )
    for path, caller, number, name in islice(called, MAX_TRIED):
        for own_id in _task_ids(caller, name, _PUSH, path, str(number)):
            yield own_id, name


def _task_ids(place: Place, name: str, *parts: str) -> list[str]:
    """The ids that the versions of LangGraph give to a task with this name."""
    namespace = f"{place.namespace}|{name}" if place.namespace else name
    text = "".join((namespace, str(place.step), name, *parts)).encode("utf-8", "replace")
    try:
        hashed = bytes.fromhex(place.checkpoint_id.replace("-", "")) + text
    except ValueError:
        return []
    digests = (xxh3_128_digest(hashed), sha1(hashed, usedforsecurity=False).digest()[:16])
    return [str(uuid.UUID(bytes=digest)) for digest in digests]


def interrupt_fields(value: Any) -> list[Mapping[str, Any]]:
    """The fields of each interrupt in the value of a write."""
    several = value if isinstance(value, list) else [value]
    return [fields for one in several if (fields := mapping(fields_of(one, "Interrupt")))]
