"""A snapshot in the form in which it is stored: compressed, with its events as bytes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import iter_unpack

import zstandard

from viewer.stores.model_calls import PackedCall, PackedSession
from viewer.stores.protocol import Snapshot

EVENT_BYTES = 16
_compress = zstandard.ZstdCompressor(level=-1)


@dataclass(slots=True)
class Packed:
    """A snapshot without its body, events and calls, and these in their stored form.

    ``data`` is the compressed body, and ``event_ids`` are sixteen bytes for each event.
    """

    snapshot: Snapshot
    data: bytes
    event_ids: bytes
    calls: list[PackedCall]
    sessions: list[PackedSession] = field(default_factory=list)
    # The key of the object in the bucket that has the body, where ``data`` is empty.
    object_key: str | None = None

    @property
    def key(self) -> str:
        return self.snapshot.key

    @property
    def event_count(self) -> int:
        return len(self.event_ids) // EVENT_BYTES

    @property
    def tokens(self) -> int:
        return sum(call.tokens for call in self.calls)


def packed(snapshot: Snapshot) -> Packed:
    """The stored form of a snapshot. Empties the snapshot's body, events, calls and sessions."""
    calls: list[PackedCall] = []
    sessions: list[PackedSession] = []
    if snapshot.calls or snapshot.sessions:
        positions = {event_id: position for position, event_id in enumerate(snapshot.event_ids)}
        calls = [PackedCall(positions[event_id], *call) for event_id, call in snapshot.calls.items()]
        sessions = [PackedSession(positions[event_id], *times) for event_id, *times in snapshot.sessions]
    result = Packed(snapshot, compressed(snapshot.body), packed_events(snapshot.event_ids), calls, sessions)
    snapshot.body, snapshot.event_ids, snapshot.calls, snapshot.sessions = b"", (), {}, []
    return result


def compressed(body: bytes) -> bytes:
    """The stored form of a redacted body."""
    return _compress.compress(body)


def packed_events(event_ids: Sequence[str]) -> bytes:
    """Sixteen bytes for each id, in order: the id itself if all are UUIDs, else the start of its hash."""
    text = "".join(event_ids).replace("-", "")
    if len(text) == 2 * EVENT_BYTES * len(event_ids):
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    return b"".join(hashlib.sha256(event_id.encode()).digest()[:EVENT_BYTES] for event_id in event_ids)


def unpacked_events(packed: bytes) -> tuple[bytes, ...]:
    """The sixteen bytes of each event. An event has the same bytes in every checkpoint."""
    return tuple(event for (event,) in iter_unpack(f"{EVENT_BYTES}s", packed))
