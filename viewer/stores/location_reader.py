"""A location as an import sees it: what is there, listed, and read by processes of its own.

Folders are listed here, which reads names and sizes only. Whatever parses bytes of a location, an SQLite file
among them, happens in a reader process.
"""

import os
import stat
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from viewer.engines import packages
from viewer.messages.message import Words
from viewer.messages.message import gettext_noop as _
from viewer.redaction.known_secrets import known_secrets
from viewer.redaction.marker import MARKER
from viewer.stores.json_folder import JsonFolder
from viewer.stores.packing import Packed
from viewer.stores.parsing import too_slow
from viewer.stores.protocol import (
    SQLITE_MAGIC,
    Entry,
    Limits,
    LocationRefused,
    LocationReplaced,
    LocationUnreadable,
    ProblemKind,
    ReadProblem,
)
from viewer.stores.reader.pool import (
    ENDED_BY_OTHERS,
    TOO_LONG,
    ReaderProcess,
    Readers,
    patience,
    readers_on,
    wait_for_any,
)
from viewer.stores.reader.wire import Batch, Find, List, Open
from viewer.stores.safe_open import Found, Identity, found_at, open_file

# From so many on, more than one reader is worth its start.
WORTH_READERS = 300
# So many at a time, and so many ahead of the answers.
ENTRIES_A_BATCH, ENTRIES_AHEAD = 10, 120


@dataclass(frozen=True, slots=True)
class LocationAddress:
    """Where a location is, and what bounds reading it.

    ``identity`` is what has to be there, where that is known. ``secrets`` are hidden wherever they are.
    ``engine`` is the name of the one that reads it; without it, the first that recognises a checkpoint does.
    """

    path: Path
    limits: Limits
    roots: Sequence[Path] = ()
    identity: Identity | None = None
    secrets: tuple[str, ...] = ()
    engine: str = ""


class LocationReader:
    """One location while it is open."""

    def __init__(self, address: LocationAddress, found: Found, readers: Readers) -> None:
        self.kind: Literal["json", "sqlite"] = "json" if found.is_folder else "sqlite"
        self.identity = found.identity
        self._address, self._found, self._readers = address, found, readers
        self._known = known_secrets(address.secrets)

    @property
    def mark(self) -> str:
        """Differs where a store that was refused might be read: it has changed, or the limits have."""
        marks = []
        for end in ("", "-wal") if self._found.name else ():
            try:
                status = os.stat(f"{self._found.name}{end}", dir_fd=self._found.folder, follow_symlinks=False)
                marks.append(f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}")
            except OSError:
                marks.append("-")
        return " ".join([*marks, self._address.limits.mark])

    def entries(self) -> Iterator[Entry | ReadProblem]:
        """Each checkpoint that is there once. Raises LocationUnreadable, also after the last one.

        Nothing is missing there unless this ends: a location that was moved away looks like an empty one.
        """
        if self.kind == "json":
            with JsonFolder(self._found.folder, self._address.limits) as folder:
                yield from (item.shown(self._known) for item in folder.entries())
        else:
            yield from (item.shown(self._known) for item in self._asked(List()))
        with found_at(self._address.path, self._address.roots) as now:
            if not now.identity.matches(self.identity):
                raise LocationUnreadable(_("It disappeared, or was replaced, while it was read. Try again."))

    def entry(self, key: str) -> Entry | ReadProblem | None:
        """The one with this key; None where there is none. Raises LocationUnreadable."""
        if MARKER in key:
            # Only its name tells which one that is.
            return next((item for item in self.entries() if item.key == key), None)
        if self.kind == "json":
            with JsonFolder(self._found.folder, self._address.limits) as folder:
                item = folder.entry(key)
        else:
            item = next(iter(self._asked(Find(key))), None)
        return item.shown(self._known) if item else None

    def check(self) -> None:
        """Raises LocationUnreadable where it cannot be listed."""
        if self.kind == "sqlite":
            self.entry("")

    def read_all(self, entries: Sequence[Entry], most_readers: int) -> Iterator[Packed | ReadProblem]:
        """Each entry's checkpoint or fault, about in order."""
        worth = len(entries) >= WORTH_READERS and self.kind == "json"
        yield from _Reading(self._readers, self._address.limits, entries, most_readers if worth else 1).all()

    def _asked(self, message: List | Find) -> list[Entry | ReadProblem]:
        """What a reader answers. Raises LocationUnreadable."""
        limits = self._address.limits
        for _attempt in range(2):
            try:
                reader = self._readers.want(1)[0]
            except OSError as error:
                raise LocationUnreadable(
                    _("No process could be started to read it: %(why)s."), why=str(error.strerror)
                ) from None
            try:
                reader.send(message)
                return _listed(reader, patience(limits))
            except TimeoutError:
                self._readers.drop(reader)
                raise LocationUnreadable(_("Reading it took too long. Try again.")) from None
            except (OSError, EOFError, msgspec.MsgspecError):
                status = reader.status()
                self._readers.drop(reader)
            if status not in ENDED_BY_OTHERS | {0}:
                words = _why_ended(status, limits)
                raise LocationRefused(words.text, **words.values)
        raise LocationUnreadable(_("The process that reads it was ended. Try again."))


@contextmanager
def open_reader(address: LocationAddress) -> Iterator[LocationReader]:
    """What is at a location, to be listed and read. Raises LocationUnreadable."""
    with ExitStack() as stack:
        found = stack.enter_context(found_at(address.path, address.roots))
        if address.identity is not None and not address.identity.matches(found.identity):
            replaced = LocationReplaced(
                _("It was replaced since it was added: something else is at its path now.")
            )
            replaced.identity = str(found.identity)
            raise replaced
        message = Open("", address.limits, secrets=address.secrets, engines=packages(address.engine))
        if not found.is_folder:
            check_file(found)
            # A reader that is ended leaves its copy.
            scratch = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="forkline-", ignore_cleanup_errors=True)
            )
            message = msgspec.structs.replace(
                message, name=found.name, identity=str(found.identity), scratch=scratch
            )
        readers = stack.enter_context(readers_on(message, found.folder))
        yield LocationReader(address, found, readers)


def check_file(found: Found) -> None:
    """Raises LocationUnreadable where it is no SQLite file."""
    status = found.status
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        raise LocationUnreadable(_("The file is empty. A store appears in it with its first checkpoint."))
    start = b""
    if stat.S_ISREG(status.st_mode):
        try:
            file = open_file(found.name, found.folder)
            try:
                start = os.read(file, len(SQLITE_MAGIC))
            finally:
                os.close(file)
        except OSError as error:
            raise LocationUnreadable(
                _("The path cannot be opened: %(why)s."), why=str(error.strerror)
            ) from None
    if start != SQLITE_MAGIC:
        raise LocationUnreadable(_("It is neither a folder nor an SQLite file."))


def _listed(reader: ReaderProcess, seconds: float) -> list[Entry | ReadProblem]:
    found: list[Entry | ReadProblem] = []
    while True:
        answer = reader.answer(seconds)
        if answer is None:
            raise TimeoutError
        if answer.unreadable is not None:
            kind = LocationRefused if answer.is_refused else LocationUnreadable
            raise kind(answer.unreadable.text, **answer.unreadable.values)
        found += answer.entries
        found += answer.faults
        if answer.is_last:
            return found


def _why_ended(status: int, limits: Limits) -> Words:
    """Why reading ended a reader with this status."""
    if status in TOO_LONG:
        return too_slow(limits).words
    return Words(
        _("The process that read it broke down, as where memory runs out (%(status)d)."), {"status": status}
    )


class _Reading:
    """Entries that are read by several processes, and whatever becomes of those."""

    def __init__(self, readers: Readers, limits: Limits, entries: Sequence[Entry], most: int) -> None:
        self._readers, self._limits, self._most = readers, limits, most
        self._todo = deque(entries)
        # At which a reader was ended by somebody.
        self._ended_at: set[str] = set()

    def all(self) -> Iterator[Packed | ReadProblem]:
        while self._todo or any(reader.unanswered for reader in self._readers.all):
            try:
                yield from self._send()
            except OSError as error:
                # No process, or no descriptor, to be had.
                yield from self._given_up(error)
                continue
            busy = [reader for reader in self._readers.all if reader.unanswered]
            for reader in wait_for_any(busy, 1.0):
                yield from self._answers(reader)
            for reader in busy:
                if reader in self._readers.all:
                    yield from self._hung(reader)

    def _send(self) -> Iterator[ReadProblem]:
        """Give each reader some more, in turns. Raises OSError where there can be no reader."""
        has_sent = True
        while self._todo and has_sent:
            has_sent = False
            # Less ahead towards the end, so that none waits long for the others.
            ahead = max(1, min(ENTRIES_AHEAD, len(self._todo) // 4))
            for reader in list(self._readers.want(self._most)):
                if self._todo and len(reader.unanswered) < ahead:
                    some = [self._todo.popleft() for _ in range(min(ENTRIES_A_BATCH, len(self._todo)))]
                    has_sent = True
                    try:
                        reader.send(Batch(some))
                    except OSError:
                        yield from self._lost(reader)

    def _answers(self, reader: ReaderProcess) -> Iterator[Packed | ReadProblem]:
        try:
            while reader.unanswered and (answer := reader.answer(0)) is not None:
                if result := answer.read or answer.fault:
                    yield result
        except (OSError, EOFError, msgspec.MsgspecError):
            yield from self._lost(reader)

    def _lost(self, reader: ReaderProcess) -> Iterator[ReadProblem]:
        """Have another read what this one had not, but for what has ended it."""
        status, unanswered = reader.status(), list(reader.unanswered)
        self._readers.drop(reader)
        if status != 0 and unanswered:
            entry = unanswered.pop(0)
            if status not in ENDED_BY_OTHERS:
                yield _fault(entry, "refused", _why_ended(status, self._limits))
            elif entry.key in self._ended_at:
                yield _fault(entry, "unavailable", Words(_("The process that read it was ended twice.")))
            else:
                self._ended_at.add(entry.key)
                unanswered.insert(0, entry)
        self._todo.extendleft(reversed(unanswered))

    def _hung(self, reader: ReaderProcess) -> Iterator[ReadProblem]:
        most = patience(self._limits)
        if reader.quiet_since is None or time.monotonic() - reader.quiet_since < most:
            return
        entry, *rest = reader.unanswered
        self._readers.drop(reader)
        yield _fault(
            entry, "unavailable", Words(_("Nothing came of it for %(most)d seconds."), {"most": int(most)})
        )
        self._todo.extendleft(reversed(rest))

    def _given_up(self, error: OSError) -> Iterator[ReadProblem]:
        words = Words(
            _("No process could be started to read it: %(why)s."), {"why": str(error.strerror or error)}
        )
        if not self._readers.all:
            while self._todo:
                yield _fault(self._todo.popleft(), "unavailable", words)
        # With fewer readers it goes on.
        self._most = len(self._readers.all)


def _fault(entry: Entry, kind: ProblemKind, words: Words) -> ReadProblem:
    return ReadProblem(entry.key, words, kind, entry.fingerprint, entry.changed_at)
