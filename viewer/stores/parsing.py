"""The bytes of one checkpoint -> its snapshot, or the reason why there is none."""

import re
import time
from collections.abc import Callable, Sequence

import msgspec

from viewer.messages.message import gettext_noop as _
from viewer.redaction.json.document import redacted_json
from viewer.redaction.json.scan import scan
from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets
from viewer.stores.protocol import (
    Broken,
    Entry,
    Foreign,
    Limits,
    Outside,
    Refused,
    Snapshot,
    StillWritten,
    StoreFormat,
)

# Python itself refuses longer ones.
MAX_DIGITS = 4000
_DIGIT = re.compile(rb"[0-9]")
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % MAX_DIGITS)
# One that does not end goes up to the end, so that it is looked at once.
_STRINGS_AND_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_FOREIGN_STARTS = {
    b"\x1f\x8b": _("It is compressed with gzip."),
    b"PK\x03\x04": _("It is a ZIP archive."),
    b"SQLite format 3\x00": _("It is an SQLite file: open it as a location of its own."),
    b"%PDF": _("It is a PDF."),
}
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def snapshot_of(
    data: bytes,
    entry: Entry,
    formats: Sequence[StoreFormat],
    outside: Callable[[StoreFormat], Outside],
    limits: Limits,
    started: float,
    known: KnownSecrets = NONE_KNOWN,
) -> Snapshot:
    """The checkpoint, redacted, by the first of the formats that recognises it. Raises Unreadable.

    ``outside`` is what a format reads in the name or row; ``started`` the processor's time at the start.
    """
    data = checked_text(data, limits)
    findings = scan(data)
    if findings.nests or len(data) > 4 * 1024 * 1024:
        _check_depth(data, limits, started)
    try:
        body = redacted_json(data, findings, known)
        snapshot = _recognised(body, entry, formats, outside, known)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _broken_off(error) from None
    except RecursionError:
        raise _too_deep(limits) from None
    _check_time(limits, started)
    return snapshot


def _recognised(
    body: bytes,
    entry: Entry,
    formats: Sequence[StoreFormat],
    outside: Callable[[StoreFormat], Outside],
    known: KnownSecrets,
) -> Snapshot:
    """The snapshot by the first format that recognises the body. Raises Foreign if none does."""
    refused: Foreign | None = None
    for one in formats:
        try:
            return one.snapshot_of(body, entry, outside(one).shown(known))
        except Foreign as error:
            refused = refused or error
    raise refused or Foreign(_("It is JSON, but not a checkpoint of a known engine."))


def checked_text(data: bytes, limits: Limits) -> bytes:
    """The bytes as UTF-8, whatever they were written in. Raises Unreadable."""
    if len(data) > limits.max_bytes:
        raise too_large(len(data), limits)
    if not data.startswith(b"{"):
        _check_start(data)
    _check_numbers(data)
    return data if data.isascii() else _utf8(data)


def _check_start(data: bytes) -> None:
    """Raise for what is told by its first bytes."""
    if not data or data.isspace():
        raise StillWritten(_("It is empty."))
    for start, reason in _FOREIGN_STARTS.items():
        if data.startswith(start):
            raise Foreign(reason)
    if data.startswith(_BOMS):
        raise Broken(_("It starts with a byte order mark, which the engine cannot read."))
    if data.startswith(b"\0"):
        raise StillWritten(_("It holds zero bytes where text is expected."))


def _utf8(data: bytes) -> bytes:
    try:
        data.decode("utf-8")
        return data
    except UnicodeDecodeError as error:
        if error.end >= len(data) and error.reason == "unexpected end of data":
            raise StillWritten(_("It ends in the middle of a letter.")) from None
    try:
        # The first versions wrote in the locale's encoding.
        return data.decode("cp1252").encode("utf-8")
    except UnicodeDecodeError as error:
        raise Broken(
            _("Its text is neither UTF-8 nor Windows-1252 (byte %(byte)d)."), byte=error.start
        ) from None


def _check_numbers(data: bytes) -> None:
    """Raise Broken for a number that nobody can read: one so long spans one of the probed bytes."""
    probed = MAX_DIGITS // 2
    for digit in _DIGIT.finditer(data[::probed]):
        step = digit.start() * probed
        if not data[step : step + 16].isdigit():
            continue
        if _LONG_NUMBER.search(data, max(0, step - 2 * probed), step + 4 * probed):
            raise Broken(_("It holds a number of more than %(most)d digits."), most=MAX_DIGITS)


def _check_depth(data: bytes, limits: Limits, started: float) -> None:
    depth = 0
    for count, match in enumerate(_STRINGS_AND_BRACKETS.finditer(data)):
        sign = data[match.start()]
        if sign in b"[{":
            depth += 1
            if depth > limits.max_depth:
                raise _too_deep(limits)
        elif sign in b"]}":
            depth -= 1
        if not count % 65536:
            _check_time(limits, started)


def _check_time(limits: Limits, started: float) -> None:
    if time.process_time() - started > limits.max_seconds:
        raise too_slow(limits)


def too_slow(limits: Limits) -> Refused:
    """Why a file is not read to its end."""
    return Refused(_("Reading it took more than %(most)s seconds."), most=f"{limits.max_seconds:g}")


def too_large(size: int, limits: Limits) -> Refused:
    """Why a file of this many bytes is not read."""
    return Refused(
        _("It has %(size)s bytes, more than the %(most)s that are read."),
        size=f"{size:,}",
        most=f"{limits.max_bytes:,}",
    )


def too_much_memory(limits: Limits) -> Refused:
    """Why a file whose reading needs this much is not read."""
    return Refused(_("Reading it takes more than %(most)d MB of memory."), most=limits.max_memory // 2**20)


def _too_deep(limits: Limits) -> Refused:
    return Refused(_("It is nested more than %(most)d levels deep."), most=limits.max_depth)


def _broken_off(error: Exception) -> StillWritten:
    """Where the JSON stops being JSON. The library's own text is not shown: it may quote what is there."""
    match = re.search(r"byte (\d+)", str(error))
    if match:
        return StillWritten(_("It is no whole JSON: it goes wrong at byte %(byte)s."), byte=match[1])
    return StillWritten(_("It is no whole JSON: it breaks off."))
