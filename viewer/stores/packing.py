"""A snapshot in the form in which it is stored: compressed, with its events as bytes."""

import hashlib
import logging
import resource
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from struct import iter_unpack

import zstandard

from viewer.messages.message import UserMessage
from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets
from viewer.stores.errors import ProblemKind, Unreadable
from viewer.stores.model_calls import PackedCall, PackedSession
from viewer.stores.protocol import Entry, ReadProblem, Snapshot, Store
from viewer.stores.snapshots import read_snapshot, too_much_memory

logger = logging.getLogger(__name__)

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

    @property
    def key(self) -> str:
        return self.snapshot.key

    @property
    def event_count(self) -> int:
        return len(self.event_ids) // EVENT_BYTES

    @property
    def tokens(self) -> int:
        return sum(call.tokens for call in self.calls)


def read_packed(store: Store, entry: Entry, known: KnownSecrets = NONE_KNOWN) -> Packed | ReadProblem:
    """The checkpoint, redacted and packed, or the problem why it cannot be read."""
    try:
        return packed(read_snapshot(store, entry, known))
    except Unreadable as error:
        return problem_with(error.entry or entry, error.kind, error.message)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # A library that runs out of memory may raise any exception, and a panic in Rust is not an Exception.
        if isinstance(error, MemoryError) or _is_short_of_memory():
            return problem_with(entry, "refused", too_much_memory(store.limits).message)
        # A bug of Forkline must not stop the import. Its message is not logged: it may quote the checkpoint.
        kind, trace = type(error).__name__, "".join(traceback.format_tb(error.__traceback__))
        logger.error("reading %s: %s\n%s", entry.key, kind, trace)
        return problem_with(entry, "broken", UserMessage("store.internal_error", {"kind": kind}))


def problem_with(entry: Entry, kind: ProblemKind, reason: UserMessage) -> ReadProblem:
    """The problem of an entry that cannot be read."""
    return ReadProblem(entry.key, reason, kind, entry.fingerprint, entry.changed_at)


def _is_short_of_memory() -> bool:
    """Whether this process is so close to its limit that the next large allocation would exceed it."""
    limit, _hard = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return False
    # The peak does not include an allocation that failed, however large it was.
    return peak_memory(("VmPeak", "VmHWM")) > limit // 2


def peak_memory(names: Sequence[str]) -> int:
    """The largest of these values of the process status, in bytes; 0 on systems without one."""
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return max(int(line.split()[1]) for line in lines if line.split(":")[0] in names) * 1024
    return 0


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
