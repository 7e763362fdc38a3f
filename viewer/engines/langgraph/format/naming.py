"""Finds the node of each task. Depending on the version, the task's path or its writes name it.

The id of each task is a hash of the name of its node or function, among others. So a name is right if it
gives the id.
"""

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha1
from itertools import islice, product
from typing import Any, Self

from xxhash import xxh3_128_digest

from viewer.engines.langgraph.format import identifiers, super_steps
from viewer.engines.langgraph.format.super_steps import Attempt, fields_of, mapping, sequence

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
    sent = super_steps.sent_nodes(checkpoint)
    hints = hints or {}
    named = [
        (attempt, super_steps.node_in_path(attempt.path, sent) or hints.get(attempt.task_id, ""))
        for attempt in attempts
    ]
    taken = Counter(node for _attempt, node in named)
    following = list((Counter(super_steps.next_nodes(checkpoint)) - taken).elements())
    unnamed = [attempt for attempt, node in named if not node and not attempt.is_called]
    # If one task and one node remain, they belong together.
    if len(unnamed) == 1 and len(following) == 1 and following != [super_steps.START]:
        named = [(one, node or ("" if one.is_called else following[0])) for one, node in named]
    return named


def open_nodes(
    named: Sequence[tuple[Attempt, str]], place: Place, checkpoint: Mapping[str, Any]
) -> list[str]:
    """The nodes that run next, without those that have finished. ``named`` are the tasks with their nodes."""
    following = super_steps.next_nodes(checkpoint)
    if super_steps.START in following:
        # Until the function of an entry point has returned once, only its task has its name.
        entry = next((name for one, name in named if _is_entry_point(one, name, place)), super_steps.START)
        following = [entry if node == super_steps.START else node for node in following]
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
        return bool(super_steps.node_in_path(attempt.path)) and name != super_steps.START
    starts = _task_ids(place, name, _PULL, super_steps.START)
    return name != super_steps.START and attempt.task_id in starts


def hints(grouped: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    """Nodes by task id, for the tasks whose writes name a node."""
    found: dict[str, str] = {}
    for task_id, writes in grouped.items():
        for write in writes:
            channel, value = str(write.get("channel")), write.get("value")
            if isinstance(value, str) and (channel.startswith("join:") or value == channel):
                found[task_id] = value
            for interrupt in interrupt_fields(value) if write["index"] == super_steps.INTERRUPT else ():
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
    sent = super_steps.sent_nodes(checkpoint)
    named = {one.task_id: super_steps.node_in_path(one.path, sent) for one in attempts}
    if all(named.values()):
        return {}
    seen = mapping(checkpoint.get("versions_seen"))
    known = dict.fromkeys((*super_steps.triggers_of(checkpoint), *sent, *seen, *names))
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
        for path, number in super_steps.calls_in_path(one.path):
            for caller, name in product(callers.get(path, ()), functions):
                if one.task_id in _task_ids(caller, name, _PUSH, path, str(number)):
                    found[one.task_id] = name
                    callers[one.path].append(caller.within(name, one.task_id))
    return {own_id: name for own_id, name in found.items() if named.get(own_id) == ""}


def _nodes(
    place: Place, checkpoint: Mapping[str, Any], functions: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """The ids, names and paths of the tasks that these nodes, and the pending sends, would be."""
    triggers = super_steps.triggers_of(checkpoint)
    for name in (*functions, super_steps.START):
        for own_id in _task_ids(place, name, _PULL, *(triggers.get(name) or (super_steps.START,))):
            yield own_id, name, f"~{_PULL}, {name}"
    for number, node in enumerate(super_steps.sent_nodes(checkpoint)[:MAX_NAMES]):
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
