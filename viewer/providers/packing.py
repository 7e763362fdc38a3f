"""A snapshot in the form in which it is stored: small, and without anything that needs another look."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import zstandard

from viewer.providers.snapshot import Entry, Fault, Provider, Snapshot, Unreadable

EVENT_BYTES = 16
_compress = zstandard.ZstdCompressor(level=1)


@dataclass(slots=True)
class Packed:
    """One checkpoint that was read. Its snapshot has given its body, events and calls away.

    ``data`` is the compressed body, ``event_ids`` sixteen bytes for each event, and ``calls`` are
    [position of the event, tokens].
    """

    snapshot: Snapshot
    data: bytes
    event_ids: bytes
    calls: list[list[int]]

    @property
    def key(self) -> str:
        return self.snapshot.key

    @property
    def event_count(self) -> int:
        return len(self.event_ids) // EVENT_BYTES

    @property
    def tokens(self) -> int:
        return sum(tokens for _, tokens in self.calls)


def read_packed(provider: Provider, entry: Entry) -> Packed | Fault:
    """The checkpoint, or why it cannot be read."""
    try:
        snapshot = provider.read(entry)
    except Unreadable as error:
        return Fault(entry.key, str(error), error.kind, entry.fingerprint, entry.changed_at)
    return packed(snapshot)


def packed(snapshot: Snapshot) -> Packed:
    """The stored form of a snapshot, which is emptied."""
    calls: list[list[int]] = []
    if snapshot.calls:
        positions = {event_id: position for position, event_id in enumerate(snapshot.event_ids)}
        calls = [[positions[event_id], tokens] for event_id, tokens in snapshot.calls.items()]
    result = Packed(snapshot, compressed(snapshot.body), packed_events(snapshot.event_ids), calls)
    snapshot.body, snapshot.event_ids, snapshot.calls = b"", (), {}
    return result


def compressed(body: bytes) -> bytes:
    """The stored form of a redacted JSON text."""
    return _compress.compress(body)


def packed_events(event_ids: Sequence[str]) -> bytes:
    """Sixteen bytes for each id, in order: the id itself where all are UUIDs, else what it hashes to."""
    text = "".join(event_ids).replace("-", "")
    if len(text) == 2 * EVENT_BYTES * len(event_ids):
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    return b"".join(hashlib.sha256(event_id.encode()).digest()[:EVENT_BYTES] for event_id in event_ids)


def unpacked_events(packed: bytes) -> tuple[str, ...]:
    """The ids as text, each the same wherever the event is met."""
    text = packed.hex()
    return tuple(text[at : at + 2 * EVENT_BYTES] for at in range(0, len(text), 2 * EVENT_BYTES))
