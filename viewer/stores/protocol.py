"""The values that every provider yields, and what can go wrong. Plain data: no Django, no engine.

Unreadable                   one file or row; its neighbours are unaffected
├── StillWritten             it does not parse (yet)
├── Broken                   it never will: damaged
├── Refused                  reading it takes more than the limits allow
├── Foreign                  it is something else
└── Unavailable              its bytes could not be had: nothing is known about them
LocationUnreadable           the folder or database itself
├── LocationRefused          reading it takes more than the limits allow
└── LocationReplaced         something else is at its path than what was added
"""

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from viewer.messages.message import Worded, Words
from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets
from viewer.redaction.texts import redacted_name

# What an SQLite file begins with, and its table of checkpoints.
SQLITE_MAGIC, TABLE = b"SQLite format 3\x00", "checkpoints"

ProblemKind = Literal["writing", "broken", "refused", "foreign", "unavailable"]


# A name as the engine gives it, in which nothing else fits.
_PLAIN_NAME = re.compile(
    r"\d{8}T\d{6}_[0-9a-f]{8}(?:_p-(?:none|\d{8}T\d{6}_[0-9a-f]{8}))?(?:\.json)?", re.ASCII
)


def redacted_key(key: str, known: KnownSecrets = NONE_KNOWN) -> str:
    """A key without secrets, still different for different ones."""
    folder, _, name = key.rpartition("/")
    if _PLAIN_NAME.fullmatch(name) and not known.is_in(name.encode()):
        return f"{_shown_folder(folder, known)}/{name}" if folder else key
    return redacted_name(key, known)


@lru_cache(maxsize=1024)
def _shown_folder(folder: str, known: KnownSecrets) -> str:
    return redacted_name(folder, known)


class Unreadable(Worded):
    """One file or row cannot be read. Its words are the reason.

    ``entry`` is what was read, where that is newer than what was listed.
    """

    kind: ProblemKind = "broken"
    entry: "Entry | None" = None


class StillWritten(Unreadable):
    """It does not parse. It may still be being written; whoever knows how long it stands decides."""

    kind: ProblemKind = "writing"


class Broken(Unreadable):
    """It is damaged."""


class Refused(Unreadable):
    """It is larger or deeper, or takes more time or memory, than the limits allow."""

    kind: ProblemKind = "refused"


class Foreign(Unreadable):
    """It is whole, and no checkpoint."""

    kind: ProblemKind = "foreign"


class Unavailable(Unreadable):
    """Its bytes could not be had just now. Only content makes it broken, so that is tried again."""

    kind: ProblemKind = "unavailable"


class LocationUnreadable(Worded):
    """Nothing can be read there at all. Its words say why, and what to do."""


class LocationRefused(LocationUnreadable):
    """Listing it takes more than the limits allow. It is not tried again until it changes."""


class LocationReplaced(LocationUnreadable):
    """Its path leads to something else than what was added.

    ``identity`` is that of what is there now; empty where it is not to be opened at all.
    """

    identity: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for each file or row: bytes, levels of nesting, seconds, and bytes of memory."""

    max_bytes: int = 64 * 1024 * 1024
    max_depth: int = 200
    max_seconds: float = 5
    max_memory: int = 448 * 1024 * 1024
    # How long to wait where a writer holds a store locked.
    lock_seconds: float = 5

    @property
    def mark(self) -> str:
        """Differs where a file that was refused might be read."""
        return f"{self.max_bytes}:{self.max_depth}:{self.max_seconds:g}:{self.max_memory}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One checkpoint that stands at a location, not read yet.

    ``key`` finds it again inside its location (a relative path, or a row's id). ``fingerprint``
    changes whenever its bytes may have changed, and costs no reading of them.
    """

    key: str
    fingerprint: str
    size: int
    # Seconds since the epoch at which its bytes last changed, where that is known.
    changed_at: float | None = None
    # The name by which it is read, where ``key`` hides a secret in it. Kept in memory only.
    source: str = field(default="", repr=False)

    @property
    def place(self) -> str:
        """The name by which it is read."""
        return self.source or self.key

    def shown(self, known: KnownSecrets) -> "Entry":
        """The same with a key without secrets, still different for different ones."""
        key = redacted_key(self.key, known)
        return self if key == self.key else dataclasses.replace(self, key=key, source=self.key)


@dataclass(frozen=True, slots=True)
class ReadProblem:
    """Something at a location that is not a readable checkpoint, and why."""

    key: str
    reason: Words
    # writing: it may still become whole. broken: it will not. refused: it is beyond a limit. foreign: it is
    # something else. unavailable: it could not be opened or read, and is tried again.
    kind: ProblemKind
    fingerprint: str = ""
    changed_at: float | None = None
    # What stands below this key, or in the whole location, could not be looked at.
    hides_others: bool = False

    def shown(self, known: KnownSecrets) -> "ReadProblem":
        """The same with a key without secrets."""
        key = redacted_key(self.key, known)
        return self if key == self.key else dataclasses.replace(self, key=key)


@dataclass(slots=True)
class Snapshot:
    """One checkpoint, read: what a row of the list needs, and its redacted body.

    ``event_ids`` are all events of the record, oldest first; ``parent_id`` is what was recorded,
    ``None`` where nothing was. ``calls`` are the tokens of each model call, by event id.
    """

    key: str
    fingerprint: str
    size: int
    checkpoint_id: str
    parent_id: str | None
    branch: str
    trigger: str
    subject: str
    created_at: datetime | None
    engine_version: str
    entity: str
    name: str
    run_key: str
    tasks_done: int
    tasks_total: int
    event_ids: tuple[str, ...]
    calls: dict[str, int]
    # The redacted checkpoint as JSON.
    body: bytes = field(repr=False)
    # The engine that wrote it.
    engine: str = ""

    @property
    def tokens(self) -> int:
        return sum(self.calls.values())


@dataclass(frozen=True, slots=True)
class Outside:
    """What is known of a checkpoint without its JSON: from its file's name and folder, or from its row."""

    checkpoint_id: str
    parent_id: str | None
    branch: str

    def shown(self, known: KnownSecrets) -> "Outside":
        """The same without secrets, still different for different ones."""
        parent = redacted_name(self.parent_id, known) if self.parent_id else None
        return Outside(redacted_name(self.checkpoint_id, known), parent, redacted_name(self.branch, known))


class StoreFormat(Protocol):
    """How one engine's checkpoints are recognised and read. Used in a reader process."""

    @property
    def engine(self) -> str:
        """The engine's name."""

    def outside_of_file(self, path: str) -> Outside:
        """What a file's path, relative to its location, says of the checkpoint in it."""

    def outside_of_row(self, key: str, parent_id: str | None, branch: str) -> Outside:
        """What a row's columns say of the checkpoint in it."""

    def snapshot_of(self, body: bytes, entry: "Entry", outside: Outside) -> "Snapshot":
        """The snapshot of a redacted JSON text. Raises Foreign for another engine's, msgspec.DecodeError."""


class Store(Protocol):
    """A location that can be read. Used as a context manager, so that nothing stays open."""

    limits: Limits
    # What is hidden wherever it is.
    known: KnownSecrets

    @property
    def kind(self) -> Literal["json", "sqlite"]:
        """What it is, as a word."""

    def __enter__(self) -> Self:
        """Ready to read. Raises LocationUnreadable."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what was opened."""

    def entries(self) -> Iterator[Entry | ReadProblem]:
        """What stands there now, each key once, without reading it. Raises LocationUnreadable."""

    def entry(self, key: str) -> Entry | ReadProblem | None:
        """The one with this key; None where there is none."""

    def read(self, entry: Entry) -> Snapshot:
        """The checkpoint itself. Raises Unreadable."""


# The redacted checkpoint, decoded for reading: what `info` and the detail panels show.
Body = dict[str, Any]
