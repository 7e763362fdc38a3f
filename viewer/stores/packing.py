"""A snapshot in the form in which it is stored: small, and without anything that needs another look."""

import hashlib
import logging
import resource
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import iter_unpack

import zstandard

from viewer.messages.message import Words
from viewer.messages.message import gettext_noop as _
from viewer.stores.parsing import too_much_memory
from viewer.stores.protocol import Entry, ReadProblem, Snapshot, Store, Unreadable

logger = logging.getLogger(__name__)

EVENT_BYTES = 16
_compress = zstandard.ZstdCompressor(level=-1)


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
        return sum(tokens for _event, tokens in self.calls)


def read_packed(provider: Store, entry: Entry) -> Packed | ReadProblem:
    """The checkpoint, or why it cannot be read."""
    try:
        return packed(provider.read(entry))
    except Unreadable as error:
        read = error.entry or entry
        return ReadProblem(entry.key, error.words, error.kind, read.fingerprint, read.changed_at)
    except MemoryError:
        words = too_much_memory(provider.limits).words
        return ReadProblem(entry.key, words, "refused", entry.fingerprint, entry.changed_at)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if _is_short_of_memory():
            # A library that is not given what it needs may say so in any way.
            words = too_much_memory(provider.limits).words
            return ReadProblem(entry.key, words, "refused", entry.fingerprint, entry.changed_at)
        # A fault of ours (a library's panic is no Exception) must not cost the others. Without the error's
        # own text, which may quote what was read.
        kind, trace = type(error).__name__, "".join(traceback.format_tb(error.__traceback__))
        logger.error("reading %s: %s\n%s", entry.key, kind, trace)
        reason = Words(
            _("Forkline failed to read it (%(kind)s), which is no fault of the file's. Its log tells more."),
            {"kind": kind},
        )
        return ReadProblem(entry.key, reason, "broken", entry.fingerprint, entry.changed_at)


def _is_short_of_memory() -> bool:
    """Whether this process has come so close to its limit that the next large piece exceeds it."""
    most, _hard = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return False
    # Of what was asked for, only that counts which was given.
    return most_memory(("VmPeak", "VmHWM")) > most // 2


def most_memory(names: Sequence[str]) -> int:
    """The largest of these values that the system keeps of this process, in bytes; 0 where it keeps none."""
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return max(int(line.split()[1]) for line in lines if line.split(":")[0] in names) * 1024
    return 0


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


def unpacked_events(packed: bytes) -> tuple[bytes, ...]:
    """The sixteen bytes of each event, the same wherever the event is met."""
    return tuple(event for (event,) in iter_unpack(f"{EVENT_BYTES}s", packed))
