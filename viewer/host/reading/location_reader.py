"""Lists and reads a location for an import. Keys, ids and bodies are redacted."""

import dataclasses
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec

from viewer.engines import packages
from viewer.host.reading.new_entries import added_files, newest_files
from viewer.host.reading.pool import Readers, readers_on
from viewer.host.reading.store_reader import Reading, answered
from viewer.host.reading.wire import Details, Find, Identify, Index, List, ListRuns, Mark, Open, Query, Reply
from viewer.redaction import MARKER
from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets, known_secrets
from viewer.redaction.texts import redacted_name
from viewer.stores.addresses import Identity, ServerAddress
from viewer.stores.errors import LocationReplaced, LocationUnreadable
from viewer.stores.json_folder import JsonFolder, KnownFolders
from viewer.stores.packing import Packed
from viewer.stores.protocol import Entry, IndexedRun, ReadLimits, ReadProblem, RunIndex, RunList, StoreKind
from viewer.stores.safe_open import Found, check_is_sqlite, found_at, is_inside

# Redacts the keys of entries and problems. Different keys stay different.


# Generated names have no part that could be a secret.
_GENERATED_NAME = re.compile(
    r"\d{8}T\d{6}_[0-9a-f]{8}(?:_p-(?:none|\d{8}T\d{6}_[0-9a-f]{8}))?(?:\.json)?", re.ASCII
)
_Listed = TypeVar("_Listed", Entry, ReadProblem, Entry | ReadProblem)


def redacted_key(key: str, known: KnownSecrets = NONE_KNOWN) -> str:
    """The key without secrets. Different keys stay different."""
    folder, _, name = key.rpartition("/")
    if _GENERATED_NAME.fullmatch(name) and not known.is_in(name.encode()):
        return f"{_redacted_folder(folder, known)}/{name}" if folder else key
    return redacted_name(key, known)


@lru_cache(maxsize=1024)
def _redacted_folder(folder: str, known: KnownSecrets) -> str:
    return redacted_name(folder, known)


def with_redacted_key(listed: _Listed, known: KnownSecrets) -> _Listed:
    """The entry or problem with a redacted key. The real key of an entry is in ``unredacted_key``."""
    key = redacted_key(listed.key, known)
    if key == listed.key:
        return listed
    if isinstance(listed, Entry):
        return dataclasses.replace(listed, key=key, unredacted_key=listed.key)
    return dataclasses.replace(listed, key=key)


# Lists and reads a location for an import. Keys, ids and bodies are redacted.
#
# A folder is listed in this process, which reads only names and sizes. The bytes of a location, and so every
# SQLite file, are parsed in a reader process. A location is pinned by its identity: it is read only if
# its path still leads to the folder or file that was added.


# For fewer entries, starting a second reader takes longer than reading them.
MIN_ENTRIES_FOR_SEVERAL = 300


@dataclass(frozen=True, slots=True)
class LocationAddress:
    """Where a location is, and how it is read.

    ``path`` leads to a folder or file, unless the location is a database of a ``server``. ``identity`` is
    the recorded identity of that folder or file, if any. ``secrets`` are redacted in all texts. ``engine``
    is the name of the engine that wrote the checkpoints; if it is empty, each entry is read by the first
    engine that recognises it. ``own`` is Forkline's data folder, which is not read.
    """

    path: Path
    limits: ReadLimits
    roots: Sequence[Path] = ()
    identity: Identity | None = None
    secrets: tuple[str, ...] = ()
    engine: str = ""
    server: ServerAddress | None = None
    own: Path | None = None


class LocationReader:
    """An open location."""

    def __init__(self, address: LocationAddress, found: Found | None, readers: Readers) -> None:
        self.kind = _kind_of(found)
        # None for a database of a server, whose name the settings determine.
        self.identity = found.identity if found else None
        self._address, self._found, self._readers = address, found, readers
        self._known = known_secrets(address.secrets)

    @property
    def mark(self) -> str:
        """A text that differs if the location has changed, or if a refused location might be readable now.

        Raises LocationUnreadable.
        """
        if self._found is None:
            return f"{self._answers(Mark())[-1].mark} {self._address.limits.mark}"
        # A folder's time changes with the names in it.
        most, changed = self._address.limits.max_names, self._found.status.st_mtime_ns
        marks = [] if self._found.name else [f"{changed}:{most}"]
        for end in ("", "-wal") if self._found.name else ():
            try:
                status = os.stat(f"{self._found.name}{end}", dir_fd=self._found.folder, follow_symlinks=False)
                marks.append(f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}")
            except OSError:
                marks.append("-")
        return " ".join([*marks, self._address.limits.mark])

    def entries(self, seen: KnownFolders | None = None) -> Iterator[Entry | ReadProblem]:
        """Every entry, with redacted keys. Adds the names in each folder to ``seen``.

        Raises LocationUnreadable, possibly after the last entry. Only if it raises nothing do missing entries
        no longer exist: a location that is moved away during the listing looks empty.
        """
        if self.kind == "json":
            with self._folder() as folder:
                yield from (with_redacted_key(item, self._known) for item in folder.entries(seen))
        else:
            yield from (with_redacted_key(item, self._known) for item in self._ask(List()))
        if self.identity is None:
            return
        with found_at(self._address.path, self._address.roots) as now:
            if not now.identity.matches(self.identity):
                raise LocationUnreadable("store.disappeared")

    def newest(self, limit: int) -> list[Entry]:
        """The newest entries by their names or rows, oldest first, with redacted keys.

        Of a large folder, those of its recently changed folders. Raises LocationUnreadable.
        """
        if self.kind == "json":
            with self._folder() as folder:
                items = newest_files(folder, limit)
        else:
            items = self._ask(List(limit))
        return [with_redacted_key(item, self._known) for item in items if isinstance(item, Entry)]

    def entry(self, key: str) -> Entry | ReadProblem | None:
        """The entry with this key; None if there is none. Raises LocationUnreadable."""
        if MARKER in key:
            # Only a complete listing shows which real key is redacted to this one.
            return next((item for item in self.entries() if item.key == key), None)
        if self.kind == "json":
            with self._folder() as folder:
                item = folder.entry(key)
        else:
            item = next(iter(self._ask(Find(key))), None)
        return with_redacted_key(item, self._known) if item else None

    def added(self, known: KnownFolders) -> list[str] | None:
        """The real keys of the files added since ``known`` was recorded, or None. See ``added_files``."""
        with self._folder() as folder:
            return added_files(folder, known)

    def check(self) -> None:
        """Raise LocationUnreadable if the location cannot be listed."""
        if self.kind != "json":
            self.engine()

    def read_all(self, entries: Sequence[Entry], max_readers: int) -> Iterator[Packed | ReadProblem]:
        """The checkpoint or problem of each entry, roughly in order."""
        is_worth_several = len(entries) >= MIN_ENTRIES_FOR_SEVERAL and self.kind == "json"
        reading = Reading(
            self._readers, self._address.limits, entries, max_readers if is_worth_several else 1
        )
        yield from reading.results()

    def _folder(self) -> JsonFolder:
        assert self._found is not None, "It is a folder."
        return JsonFolder(self._found.folder, self._address.limits, (), self._address.own)

    def _ask(self, message: List | Find) -> list[Entry | ReadProblem]:
        found: list[Entry | ReadProblem] = []
        for part in self._answers(message):
            found += part.entries
            found += part.problems
        return found

    def _answers(self, question: Query) -> list[Reply]:
        return answered(self._readers, question, self._address.limits)

    def engine(self) -> str:
        """The engine whose own tables a database has; empty if it has none. Raises LocationUnreadable."""
        return "" if self.kind == "json" else self._answers(Identify())[-1].engine

    def runs(self, limit: int | None = None, known: Mapping[str, str] | None = None) -> RunList:
        """The newest runs of an indexed store, or all of them. Raises LocationUnreadable.

        ``known`` are the digests of stored parts. Runs of parts with the same digest may be left out.
        """
        answers = self._answers(ListRuns(limit, None if known is None else dict(known)))
        listed = answers[-1].run_parts
        return RunList(
            [run for part in answers for run in part.runs],
            [one for part in answers for one in part.problems],
            None if listed is None else frozenset(listed),
        )

    def details(self, keys: Sequence[str]) -> list[IndexedRun]:
        """More about some runs of an indexed store. Raises LocationUnreadable."""
        return [run for part in self._answers(Details(keys)) for run in part.runs]

    def index(self, key: str, *, newest_first: bool = False, since: str = "") -> RunIndex:
        """A run of an indexed store, without bodies. Raises LocationUnreadable."""
        parts = self._answers(Index(key, newest_first, since))
        return RunIndex(
            [run for part in parts for run in part.runs],
            [one for part in parts for one in part.snapshots],
            [one for part in parts for one in part.outline],
            parts[-1].state,
            parts[-1].is_appended,
        )


@contextmanager
def open_reader(address: LocationAddress) -> Iterator[LocationReader]:
    """Open a location to list and read it. Raises LocationUnreadable."""
    message = Open("", address.limits, secrets=address.secrets, engines=packages(address.engine))
    if address.server is not None:
        message = msgspec.structs.replace(message, server=address.server)
        with readers_on(message, None) as readers:
            yield LocationReader(address, None, readers)
        return
    if address.own is not None and is_inside(address.path, address.own):
        raise LocationUnreadable("store.own_data_folder")
    with ExitStack() as stack:
        found = stack.enter_context(found_at(address.path, address.roots))
        if address.identity is not None and not address.identity.matches(found.identity):
            replaced = LocationReplaced("store.replaced")
            replaced.identity = str(found.identity)
            raise replaced
        if not found.is_folder:
            check_is_sqlite(found)
            # A reader that is killed leaves its copy of the file here.
            scratch = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="forkline-", ignore_cleanup_errors=True)
            )
            message = msgspec.structs.replace(
                message, name=found.name, identity=str(found.identity), scratch=scratch
            )
        readers = stack.enter_context(readers_on(message, found.folder))
        yield LocationReader(address, found, readers)


def _kind_of(found: Found | None) -> StoreKind:
    if found is None:
        return "postgresql"
    return "json" if found.is_folder else "sqlite"
