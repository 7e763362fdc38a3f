"""Entries -> what is to be stored of them, or why they cannot be read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from viewer.importing.stored import compressed, packed_events
from viewer.providers.snapshot import Entry, Fault, Provider, Snapshot, Unreadable


@dataclass(slots=True)
class Read:
    """One checkpoint that was read, as it is stored. ``calls`` are [position of the event, tokens]."""

    snapshot: Snapshot
    data: bytes
    event_ids: bytes
    calls: list[list[int]]

    @property
    def key(self) -> str:
        return self.snapshot.key


def read_all(provider: Provider, entries: Sequence[Entry]) -> Iterator[Read | Fault]:
    """Each entry's checkpoint or fault, in order."""
    for entry in entries:
        try:
            yield _stored_form(provider.read(entry))
        except Unreadable as error:
            yield Fault(entry.key, str(error), error.kind, entry.fingerprint, entry.changed_at)


def _stored_form(snapshot: Snapshot) -> Read:
    data = compressed(snapshot.body)
    snapshot.body = b""
    calls: list[list[int]] = []
    if snapshot.calls:
        positions = {event_id: position for position, event_id in enumerate(snapshot.event_ids)}
        calls = [[positions[event_id], tokens] for event_id, tokens in snapshot.calls.items()]
    return Read(snapshot, data, packed_events(snapshot.event_ids), calls)
