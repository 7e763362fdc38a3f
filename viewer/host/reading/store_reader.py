"""Reads a store in reader processes. If one exits or stops responding, another continues."""

import time
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from viewer.host.reading.pool import (
    ENDED_BY_OTHERS,
    OUT_OF_TIME,
    ReaderProcess,
    Readers,
    patience,
    wait_for_any,
)
from viewer.host.reading.snapshots import problem_with
from viewer.host.reading.wire import Batch, Query, Reply
from viewer.messages.message import UserMessage
from viewer.stores.errors import LocationLimitExceeded, LocationUnreadable, too_slow
from viewer.stores.packing import Packed
from viewer.stores.protocol import Entry, ReadLimits, ReadProblem

# The most entries in one message, and the most entries sent to a reader that it has not answered.
BATCH_SIZE, MAX_UNANSWERED = 10, 120
# The most rows of one store that may each end a reader. Each takes up to the limit of processor time.
MAX_SKIPPED = 8


def answered(readers: Readers, message: Query, limits: ReadLimits) -> list[Reply]:
    """The parts of a reader's reply to a query. Raises LocationUnreadable.

    If a row ends the reader or exceeds its limits, another reader replies without the values of that row.
    """
    passing_errors = 0
    while passing_errors < 2:
        try:
            reader = readers.want(1)[0]
        except OSError as error:
            text = _cannot_start(error)
            raise LocationUnreadable(text) from None
        try:
            reader.send(message)
            return _parts(reader, patience(limits))
        except TimeoutError:
            readers.drop(reader)
            raise LocationUnreadable("store.read_timed_out") from None
        except LocationLimitExceeded as error:
            failed = error
        except (OSError, EOFError, msgspec.MsgspecError):
            status = reader.status()
            if status in ENDED_BY_OTHERS | {0}:
                passing_errors += 1
                readers.drop(reader)
                continue
            failed = LocationLimitExceeded(_why_ended(status, limits))
        row, seconds = reader.noted_row()
        readers.drop(reader)
        # If many rows took the time together, leaving out the last one would not help.
        is_to_blame = failed.message != too_slow(limits).message or seconds < limits.max_seconds / 2
        if not is_to_blame or len(readers.skipped) >= MAX_SKIPPED or not readers.skip(row):
            raise failed
    raise LocationUnreadable("store.reader_stopped")


def _parts(reader: ReaderProcess, seconds: float) -> list[Reply]:
    found: list[Reply] = []
    while True:
        reply = reader.reply(seconds)
        if reply is None:
            raise TimeoutError
        if reply.unreadable is not None:
            kind = LocationLimitExceeded if reply.is_over_limit else LocationUnreadable
            raise kind(reply.unreadable)
        found.append(reply)
        if reply.is_last:
            return found


class Reading:
    """Entries that are read by at most ``max_readers`` processes."""

    def __init__(
        self, readers: Readers, limits: ReadLimits, entries: Sequence[Entry], max_readers: int
    ) -> None:
        self._readers, self._limits, self._max_readers = readers, limits, max_readers
        self._pending = deque(entries)
        # Keys of the entries at which another program ended a reader.
        self._ended_at: set[str] = set()

    def results(self) -> Iterator[Packed | ReadProblem]:
        """One result for each entry."""
        while self._pending or any(reader.unanswered for reader in self._readers.all):
            try:
                yield from self._send()
            except OSError as error:
                yield from self._without_new_reader(error)
                continue
            busy = [reader for reader in self._readers.all if reader.unanswered]
            for reader in wait_for_any(busy, 1.0):
                yield from self._answers(reader)
            for reader in busy:
                if reader in self._readers.all:
                    yield from self._timed_out(reader)

    def _send(self) -> Iterator[ReadProblem]:
        """Send each reader more entries, in turn. Raises OSError if no reader can be started."""
        has_sent = True
        while self._pending and has_sent:
            has_sent = False
            # Readers get fewer entries towards the end, so that all of them finish at about the same time.
            max_unanswered = max(1, min(MAX_UNANSWERED, len(self._pending) // 4))
            for reader in list(self._readers.want(self._max_readers)):
                if self._pending and len(reader.unanswered) < max_unanswered:
                    count = min(BATCH_SIZE, len(self._pending))
                    entries = [self._pending.popleft() for _ in range(count)]
                    has_sent = True
                    try:
                        reader.send(Batch(entries))
                    except OSError:
                        yield from self._lost(reader)

    def _answers(self, reader: ReaderProcess) -> Iterator[Packed | ReadProblem]:
        try:
            while reader.unanswered and (reply := reader.reply(0)) is not None:
                if result := reply.read or reply.problem:
                    yield result
        except (OSError, EOFError, msgspec.MsgspecError):
            yield from self._lost(reader)

    def _lost(self, reader: ReaderProcess) -> Iterator[ReadProblem]:
        """Give the entries of a reader that has ended to other readers, except the entry that ended it."""
        status, unanswered = reader.status(), list(reader.unanswered)
        self._readers.drop(reader)
        if status != 0 and unanswered:
            entry = unanswered.pop(0)
            if status not in ENDED_BY_OTHERS:
                yield problem_with(entry, "refused", _why_ended(status, self._limits))
            elif entry.key in self._ended_at:
                reason = UserMessage("store.reader_stopped_twice")
                yield problem_with(entry, "unavailable", reason)
            else:
                self._ended_at.add(entry.key)
                unanswered.insert(0, entry)
        self._pending.extendleft(reversed(unanswered))

    def _timed_out(self, reader: ReaderProcess) -> Iterator[ReadProblem]:
        """Drop a reader that has not answered for longer than ``patience`` allows."""
        seconds = patience(self._limits)
        if reader.silent_since is None or time.monotonic() - reader.silent_since < seconds:
            return
        entry, *rest = reader.unanswered
        self._readers.drop(reader)
        reason = UserMessage("store.no_answer", {"most": int(seconds)})
        yield problem_with(entry, "unavailable", reason)
        self._pending.extendleft(reversed(rest))

    def _without_new_reader(self, error: OSError) -> Iterator[ReadProblem]:
        """Continue with the running readers; without any, report all pending entries as unavailable."""
        if not self._readers.all:
            while self._pending:
                yield problem_with(self._pending.popleft(), "unavailable", _cannot_start(error))
        self._max_readers = len(self._readers.all)


def _why_ended(status: int, limits: ReadLimits) -> UserMessage:
    """Why an entry has ended a reader with this status."""
    if status in OUT_OF_TIME:
        return too_slow(limits).message
    return UserMessage("store.reader_crashed", {"status": status})


def _cannot_start(error: OSError) -> UserMessage:
    why = str(error.strerror or error)
    return UserMessage("store.reader_not_started", {"why": why})
