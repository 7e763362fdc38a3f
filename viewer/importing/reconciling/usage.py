"""The usage of a run: model calls and working time, from the records of its checkpoints."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewer.importing.reconciling.members import Member
from viewer.importing.reconciling.rows import in_slices
from viewer.lineage.tree import Lineage
from viewer.models import StoredCopy
from viewer.models.usage import usage_values
from viewer.stores.model_calls import ModelCall, PackedCall, PackedSession, usage_by_model
from viewer.stores.packing import EVENT_BYTES

# The columns of a run without model calls and with unknown working time.
NOTHING_USED: list[Any] = [*usage_values([]), None]


@dataclass(slots=True)
class RecordedUsage:
    """The model calls and working periods of a run, by event, so that repeated events count once."""

    calls: dict[bytes, ModelCall] = field(default_factory=dict)
    # The start and end of each period, in seconds since the epoch.
    sessions: dict[bytes, tuple[float, float]] = field(default_factory=dict)

    def add(self, event_ids: bytes, calls: Iterable[PackedCall], sessions: Iterable[PackedSession]) -> None:
        """Add the records of one checkpoint."""
        for call in calls:
            self.calls[_event(event_ids, call.position)] = call.call
        for session in sessions:
            event = _event(event_ids, session.position)
            start, end = self.sessions.get(event, (session.start, session.end))
            self.sessions[event] = min(start, session.start), max(end, session.end)

    @property
    def values(self) -> list[Any]:
        """The values of ``Metered.USAGE_COLUMNS``, and the seconds that the run worked."""
        usage = [list(one) for one in usage_by_model(self.calls.values())]
        seconds = sum(end - start for start, end in self.sessions.values())
        return [*usage_values(usage), round(seconds, 3) if self.sessions else None]


def _event(event_ids: bytes, position: int) -> bytes:
    return event_ids[position * EVENT_BYTES : (position + 1) * EVENT_BYTES]


def recorded_usage(lineages: Sequence[Lineage], members: Mapping[str, Member]) -> list[RecordedUsage | None]:
    """The usage of each lineage's run; None if its checkpoints record no events at all."""
    found: list[RecordedUsage | None] = []
    stored: dict[int, RecordedUsage] = {}
    for lineage in lineages:
        if not any(members[node.key].event_count for node in lineage.nodes):
            found.append(None)
            continue
        usage = RecordedUsage()
        found.append(usage)
        for member in _with_own_events(lineage, members):
            if member.read is not None:
                usage.add(member.read.event_ids, member.read.calls, member.read.sessions)
            elif member.pk is not None:
                stored[member.pk] = usage
    for some in in_slices(list(stored)):
        copies = StoredCopy.objects.filter(pk__in=some)
        for pk, event_ids, calls, sessions in copies.values_list("pk", "event_ids", "calls", "sessions"):
            packed = (PackedCall(*call) for call in calls), (PackedSession(*one) for one in sessions)
            stored[pk].add(bytes(event_ids), *packed)
    return found


def _with_own_events(lineage: Lineage, members: Mapping[str, Member]) -> Iterator[Member]:
    """The members whose events are not repeated by a child."""
    covered = {
        node.parent
        for node in lineage.nodes
        if node.parent is not None and members[node.key].event_count >= members[node.parent].event_count
    }
    return (members[node.key] for node in lineage.nodes if node.key not in covered)
