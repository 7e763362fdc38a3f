"""Infers parents that were not recorded from the event record. Pure functions.

Every checkpoint repeats the events of its ancestors, so its parent is the checkpoint of the same run whose
set of events is the largest proper subset of its own. Comparing every pair would be quadratic.
Instead each set is indexed by its rarest event: every superset contains that event, so a node finds
all its ancestors through its own events.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Sequence

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
