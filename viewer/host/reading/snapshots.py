"""From an entry of a store to its snapshot: read, checked, redacted, and decoded by the engine's format.

``snapshot_of`` redacts the bytes and the ids of a checkpoint before they are stored, logged or sent.
Checkpoints that are read are redacted only here.
"""

import logging
import re
import resource
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from viewer.messages.message import UserMessage
from viewer.redaction import MARKER, value_at
from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets, redacted_name
from viewer.redaction.values import decoded, redacted_json, scan
from viewer.stores.protocol import (
    Broken,
    Entry,
    Foreign,
    Incomplete,
    LimitExceeded,
    LocationUnreadable,
    Packed,
    ProblemKind,
    RawCheckpoint,
    ReadLimits,
    ReadProblem,
    RecordedIds,
    Snapshot,
    Store,
    StoreFormat,
    Unreadable,
    packed,
    too_large,
    too_much_memory,
    too_slow,
)
from viewer.validation import shortened

logger = logging.getLogger(__name__)
# Python does not convert numbers with more than 4300 digits.
MAX_DIGITS = 4000
# Larger bodies are checked for their depth even if the scan found no deep nesting.
MIN_BYTES_TO_CHECK_DEPTH = 4 * 1024 * 1024
_DIGIT = re.compile(rb"[0-9]")
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % MAX_DIGITS)
# A string that does not end extends to the end of the data, so that it is matched only once.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_STRINGS_AND_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_FOREIGN_STARTS = {
    b"\x1f\x8b": "store.gzip",
    b"PK\x03\x04": "store.zip",
    b"SQLite format 3\x00": "store.nested_sqlite",
    b"%PDF": "store.pdf",
}
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def read_snapshot(store: Store, entry: Entry, known: KnownSecrets = NONE_KNOWN) -> Snapshot:
    """The snapshot of an entry, redacted. Raises Unreadable."""
    started = time.process_time()
    raw = store.read(entry)
    try:
        return snapshot_of(raw, store.formats, store.limits, started, known)
    except Unreadable as error:
        error.entry = raw.entry
        raise


def snapshot_of(
    raw: RawCheckpoint,
    formats: Sequence[StoreFormat],
    limits: ReadLimits,
    started: float,
    known: KnownSecrets = NONE_KNOWN,
) -> Snapshot:
    """The snapshot of what a store has read, redacted, by the first format that recognises it.

    ``started`` is the process time, in seconds, at which reading began. Raises Unreadable.
    """
    data = checked_text(raw.data, limits)
    findings = scan(data)
    if findings.has_deep_nesting or len(data) > MIN_BYTES_TO_CHECK_DEPTH:
        _check_depth(data, limits, started)
    try:
        body = redacted_json(data, findings, known)
        snapshot = _recognised(body, raw, formats, known)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_json(error) from None
    except RecursionError:
        raise _too_deep(limits) from None
    _check_time(limits, started)
    snapshot.source_digest = raw.digest
    return snapshot


def _recognised(
    body: bytes, raw: RawCheckpoint, formats: Sequence[StoreFormat], known: KnownSecrets
) -> Snapshot:
    """The snapshot of a redacted body. Raises Foreign if no format recognises it."""
    foreign: Foreign | None = None
    for store_format in formats:
        try:
            ids = _redacted_ids(raw.ids_by(store_format), known)
            return store_format.snapshot_of(body, raw.entry, ids)
        except Foreign as error:
            foreign = foreign or error
    raise foreign or Foreign("store.json_not_a_checkpoint")


def _redacted_ids(ids: RecordedIds, known: KnownSecrets) -> RecordedIds:
    """The ids without secrets. Different ids stay different."""
    parent_id = redacted_name(ids.parent_id, known) if ids.parent_id else None
    return RecordedIds(redacted_name(ids.checkpoint_id, known), parent_id, redacted_name(ids.branch, known))


def checked_text(data: bytes, limits: ReadLimits) -> bytes:
    """The bytes as UTF-8, converted if they are in cp1252. Raises Unreadable."""
    if len(data) > limits.max_bytes:
        raise too_large(len(data), limits)
    if not data.startswith(b"{"):
        _check_start(data)
    _check_numbers(data)
    return data if data.isascii() else _utf8(data)


def _check_start(data: bytes) -> None:
    """Raise Unreadable if the first bytes show that this is not JSON."""
    if not data or data.isspace():
        raise Incomplete("store.empty")
    for start, reason in _FOREIGN_STARTS.items():
        if data.startswith(start):
            raise Foreign(reason)
    if data.startswith(_BYTE_ORDER_MARKS):
        raise Broken("store.byte_order_mark")
    if data.startswith(b"\0"):
        raise Incomplete("store.zero_bytes")


def _utf8(data: bytes) -> bytes:
    try:
        data.decode("utf-8")
        return data
    except UnicodeDecodeError as error:
        if error.end >= len(data) and error.reason == "unexpected end of data":
            raise Incomplete("store.truncated_character") from None
    try:
        # An engine's first versions wrote in the encoding of the locale.
        return data.decode("cp1252").encode("utf-8")
    except UnicodeDecodeError as error:
        raise Broken("store.encoding_unknown", byte=error.start) from None


def _check_numbers(data: bytes) -> None:
    """Raise Broken for a number that is too long to be read. Such a number spans one of the probed bytes."""
    probed = MAX_DIGITS // 2
    for digit in _DIGIT.finditer(data[::probed]):
        step = digit.start() * probed
        if not data[step : step + 16].isdigit():
            continue
        if _LONG_NUMBER.search(data, max(0, step - 2 * probed), step + 4 * probed):
            # A text may have any number of digits.
            if _LONG_NUMBER.search(_STRING.sub(b'""', data)):
                raise Broken("store.number_too_long", most=MAX_DIGITS)
            return


def _check_depth(data: bytes, limits: ReadLimits, started: float) -> None:
    depth = 0
    for count, match in enumerate(_STRINGS_AND_BRACKETS.finditer(data)):
        first = data[match.start()]
        if first in b"[{":
            depth += 1
            if depth > limits.max_depth:
                raise _too_deep(limits)
        elif first in b"]}":
            depth -= 1
        if not count % 65536:
            _check_time(limits, started)


def _check_time(limits: ReadLimits, started: float) -> None:
    if time.process_time() - started > limits.max_seconds:
        raise too_slow(limits)


def _too_deep(limits: ReadLimits) -> LimitExceeded:
    return LimitExceeded("store.nested_json", most=limits.max_depth)


def _not_json(error: Exception) -> Incomplete:
    """The error for data that are not JSON, without the library's message, which may quote them."""
    match = re.search(r"byte (\d+)", str(error))
    if match:
        return Incomplete("store.json_invalid", byte=match[1])
    return Incomplete("store.json_truncated")


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


# A longer text is cut off.
MAX_REVEALED = 20_000


def revealed_value(store: Store, entry: Entry, pointer: str, known: KnownSecrets = NONE_KNOWN) -> str:
    """The text at this JSON Pointer as the checkpoint has it. Raises LocationUnreadable.

    Only of what redaction hides: nothing else is read without it.
    """
    started = time.process_time()
    try:
        data = checked_text(store.read(entry).data, store.limits)
        _check_depth(data, store.limits, started)
        shown = value_at(decoded(redacted_json(data, scan(data), known)), pointer)
        value = value_at(decoded(data), pointer)
    except Unreadable as error:
        raise LocationUnreadable(error.message) from None
    except (ValueError, LookupError, RecursionError):
        raise LocationUnreadable("reveal.not_hidden") from None
    if not isinstance(shown, str) or MARKER not in shown or not isinstance(value, str | int | float):
        raise LocationUnreadable("reveal.not_hidden")
    return shortened(str(value), MAX_REVEALED)


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
