"""What a store and an engine's store format provide, and the values that they exchange.

A store is whatever holds the checkpoints of a location: a folder of JSON files, an SQLite file, a
PostgreSQL database. It is a context manager that is open in a reader process if its bytes have to be
parsed, and it never writes. A store

- lists its entries without reading them, each key once. What cannot be a checkpoint is listed as a problem.
- gives each entry a fingerprint that changes whenever its bytes may have changed. Fingerprints are stored
in rows: an entry is read again only if its fingerprint differs.
- reads one entry as the bytes that the engine wrote, as UTF-8 JSON, and the ids that are recorded outside
these bytes.
- enforces ``ReadLimits`` as far as it can before all bytes are in memory.
- raises ``Unreadable`` for one entry and ``LocationUnreadable`` for the whole location, and nothing else.

A store does not redact. ``snapshots.read_snapshot`` does, before anything leaves the reader process.
Paths, and the identity by which a location is pinned, are not part of the protocol: ``location_reader`` and
``safe_open`` handle them for locations that are paths.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from struct import iter_unpack
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar

import zstandard

from viewer.messages.message import UserFacingError, UserMessage
from viewer.redaction.known_secrets import KnownSecrets, known_secrets, redacted_key
from viewer.stores import DatabaseFile, SaverAddress, ServerAddress

# The model calls that checkpoints record.


# The largest values accepted from a checkpoint, which may be hostile.
MAX_TOKENS = 2**40
# Seconds: ten years.
MAX_DURATION = 3650 * 24 * 3600
MAX_MODEL_NAME = 200


class ModelCall(NamedTuple):
    """The tokens of one model call.

    ``tokens`` is the reported total, ``cached`` the part of ``tokens_in`` that was read from a prompt cache.
    ``model`` is empty if it is not recorded.
    """

    tokens: int
    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    model: str = ""

    @property
    def calls(self) -> int:
        """What it counts for in a ModelUsage."""
        return 1


NO_CALL = ModelCall(0)


class PackedCall(NamedTuple):
    """A call as it is stored: the position of its event in the record, and the call's own fields.

    Calls that were stored before models were recorded have the position and the total only.
    """

    position: int
    tokens: int
    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    model: str = ""

    @property
    def call(self) -> ModelCall:
        return ModelCall(*self[1:])


class PackedSession(NamedTuple):
    """A stretch in which a run worked. A resume or fork begins another one.

    ``start`` and ``end`` are in seconds since the epoch. ``position`` is that of its first event.
    """

    position: int
    start: float
    end: float


# The names that providers and libraries give to the parts of a call's usage.
_TOKENS_IN = ("prompt_tokens", "input_tokens", "prompt_token_count")
_TOKENS_OUT = ("completion_tokens", "output_tokens", "candidates_token_count")
_CACHED = (
    *("cached_prompt_tokens", "cached_tokens", "cache_read", "cache_read_input_tokens"),
    *("cache_read_tokens", "cached_content_token_count"),
)
_DETAILS = ("prompt_tokens_details", "input_token_details", "input_tokens_details")


def call_of(usage: Mapping[str, Any], model: str) -> ModelCall:
    """The call with this usage, as a provider or library reports it. Counts that are not reported are 0."""
    details: Mapping[str, Any] = next(
        (usage[name] for name in _DETAILS if isinstance(usage.get(name), dict)), {}
    )
    tokens_in, tokens_out = _first(usage, _TOKENS_IN), _first(usage, _TOKENS_OUT)
    cached = _first(usage, _CACHED) or _first(details, _CACHED)
    total = count_of(usage.get("total_tokens")) or tokens_in + tokens_out
    return ModelCall(total, tokens_in, tokens_out, min(cached, tokens_in), model[:MAX_MODEL_NAME])


def _first(usage: Mapping[str, Any], names: Iterable[str]) -> int:
    return next((count for name in names if (count := count_of(usage.get(name)))), 0)


def count_of(value: Any) -> int:
    """The value if it is a positive integer, cut to the maximum; else 0: a run may have written anything."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return min(value, MAX_TOKENS) if is_count else 0


def duration_of(value: Any) -> float | None:
    """The value in seconds if it is a plausible duration, else None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= MAX_DURATION else None


class ModelUsage(NamedTuple):
    """The calls of one model, added up."""

    model: str
    calls: int
    tokens: int
    tokens_in: int
    tokens_out: int
    cached: int


def usage_by_model(calls: Iterable[ModelCall]) -> list[ModelUsage]:
    """The usage of each model, most tokens first."""
    found: dict[str, ModelUsage] = {}
    for call in calls:
        _, count, *before = found.get(call.model, ModelUsage(call.model, 0, 0, 0, 0, 0))
        added = (old + new for old, new in zip(before, call[:4], strict=True))
        found[call.model] = ModelUsage(call.model, count + 1, *added)
    return sorted(found.values(), key=lambda usage: (-usage.tokens, usage.model))


# What a store and an engine's store format provide, and the values that they exchange.


# What a store lists and reads.


StoreKind = Literal["json", "sqlite", "states", "postgresql", "saver"]
ProblemKind = Literal["writing", "broken", "refused", "foreign", "unavailable"]


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits for each file or row: bytes, levels of nesting, seconds of processor time, bytes of memory.

    Those of a whole location follow.
    """

    max_bytes: int = 64 * 1024 * 1024
    max_depth: int = 200
    max_seconds: float = 5
    max_memory: int = 448 * 1024 * 1024
    # Files and folders of a location, whatever their names.
    max_names: int = 1_000_000
    # How long to wait for a writer's lock.
    lock_seconds: float = 5
    # How long a server may take for one statement.
    statement_seconds: int = 10

    @property
    def mark(self) -> str:
        """A text that differs if a file that was refused might be readable now. Stored with problems."""
        return f"{self.max_bytes}:{self.max_depth}:{self.max_seconds:g}:{self.max_memory}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One checkpoint of a location, not read yet.

    ``key`` identifies it within its location: a relative path, or a row's id. ``fingerprint`` changes
    whenever its bytes may have changed, and is known without reading them. ``size`` is in bytes.
    """

    key: str
    fingerprint: str
    size: int
    # When its bytes last changed, in seconds since the epoch; None if that is not known.
    changed_at: float | None = None
    # The real key if ``key`` is redacted. Kept in memory only.
    unredacted_key: str = field(default="", repr=False)

    @property
    def real_key(self) -> str:
        """The key that the store uses, which may contain a secret."""
        return self.unredacted_key or self.key


@dataclass(frozen=True, slots=True)
class ReadProblem:
    """A file or row that is not a readable checkpoint, and why.

    ``hides`` says which other entries are missing from a list because of it: those below its key, or any.
    """

    key: str
    reason: UserMessage
    kind: ProblemKind
    fingerprint: str = ""
    changed_at: float | None = None
    hides: Literal["nothing", "below", "anything"] = "nothing"

    def may_hide(self, key: str) -> bool:
        """Whether the entry with this key may be missing from the list because of this problem."""
        is_below = key == self.key or key.startswith(f"{self.key}/")
        return self.hides == "anything" or (self.hides == "below" and is_below)


_Listed = TypeVar("_Listed", Entry, ReadProblem, Entry | ReadProblem)


def with_redacted_keys(listed: Iterable[_Listed], secrets: tuple[str, ...]) -> Iterator[_Listed]:
    """The entries and problems with redacted keys. The real key of an entry is in ``unredacted_key``."""
    known = known_secrets(secrets)
    for one in listed:
        key = redacted_key(one.key, known)
        if key == one.key:
            yield one
        elif isinstance(one, Entry):
            yield replace(one, key=key, unredacted_key=one.key)
        else:
            yield replace(one, key=key)


@dataclass(frozen=True, slots=True)
class RecordedIds:
    """The ids that a store records outside a checkpoint's bytes: in a file's path, or in columns of a row."""

    checkpoint_id: str
    parent_id: str | None
    branch: str


@dataclass(frozen=True, slots=True)
class RawCheckpoint:
    """What a store reads of one entry. ``data`` is unredacted.

    ``entry`` has another fingerprint than the listed one if the bytes have changed since. ``ids_by`` returns
    the ids that are recorded outside the bytes, as a format understands them. ``digest`` is the row's
    (``row_digest``); empty for a store whose fingerprints suffice.
    """

    entry: Entry
    data: bytes = field(repr=False)
    ids_by: "Callable[[StoreFormat], RecordedIds]" = field(repr=False)
    digest: str = ""


# The columns besides the checkpoint that are part of a row's digest. A table may lack any of them.
DIGESTED_COLUMNS = ("created_at", "parent_id", "branch")
# Far longer than any id, date or branch.
MAX_SHORT_BYTES = 4096


def row_digest(kind: str, data: bytes, columns: Sequence[bytes | float | None]) -> str:
    """The digest of a row, which differs for a changed row with the same fingerprint.

    It is made of the type and bytes of its data, and the values of ``DIGESTED_COLUMNS``, texts as bytes.
    """
    digest = hashlib.sha256(f"{kind}\0{tuple(columns)!r}\0".encode())
    digest.update(data)
    return digest.hexdigest()


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """One checkpoint, parsed and redacted: the columns of its row, and its body.

    ``event_ids`` are all events of the record, oldest first. ``parent_id`` is None if none is recorded.
    ``calls`` are the model calls by event id. ``sessions`` are the stretches in which the run worked: the id
    of the first event, and when it began and ended, in seconds since the epoch.
    """

    key: str
    fingerprint: str
    size: int
    checkpoint_id: str
    parent_id: str | None
    branch: str
    trigger: str
    subject: str = ""
    created_at: datetime | None
    engine_version: str = ""
    # A root kind of the engine.
    entity: str
    name: str = ""
    run_key: str
    units_done: int = 0
    units_total: int = 0
    event_ids: tuple[str, ...] = ()
    calls: dict[str, ModelCall] = field(default_factory=dict)
    # The redacted checkpoint as JSON; empty if it is not stored.
    body: bytes = field(default=b"", repr=False)
    # The engine that wrote it.
    engine: str = ""
    # The number that the engine gives its step, and the turn of the conversation that it belongs to.
    step: int | None = None
    turn: int = 0
    # The units that ran in its step or are pending after it, each with its status.
    units: list[tuple[str, str]] = field(default_factory=list)
    sessions: list[tuple[str, float, float]] = field(default_factory=list)
    # The digest of what it was read from (``RawCheckpoint.digest``).
    source_digest: str = ""

    @property
    def tokens(self) -> int:
        return sum(call.tokens for call in self.calls.values())


@dataclass(frozen=True, slots=True)
class IndexedRun:
    """A run as an indexed store lists it, redacted. ``head`` is the id of its newest checkpoint.

    ``parent_key`` and ``called_from`` are the run and checkpoint that called it, if any did. ``count`` is the
    number of its checkpoints; 0 if that is not known. ``calls`` and ``seconds`` are its model calls, and how
    long it worked; None if they have not been read. ``copies`` are the source keys of its first and its
    newest checkpoint, which say what the run is about; none if that is not known.
    """

    key: str
    head: str
    last_at: datetime | None = None
    namespace: str = ""
    name: str = ""
    parent_key: str = ""
    called_from: str = ""
    status: str = ""
    is_forked: bool = False
    count: int = 0
    first_at: datetime | None = None
    calls: list[ModelCall] | None = None
    seconds: float | None = None
    copies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunList:
    """The runs of an indexed store, newest first, and the problems of runs that cannot be listed."""

    runs: list[IndexedRun]
    problems: list[ReadProblem]
    # The parts whose runs are listed; None if the runs of all parts are.
    parts: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class RunIndex:
    """One run with the runs that it called, and the columns of their checkpoints, without bodies.

    If there is an ``outline``, ``snapshots`` has only the run's newest checkpoints, and the ends of its
    branches. The outline has the id, the parent's id (or an empty text) and the branch of all of them, oldest
    first.

    The ``cursor`` is for the next listing; empty if that has to be complete. If ``is_appended``, only what is
    new or has changed since an earlier cursor is listed, and nothing was deleted.
    """

    runs: list[IndexedRun]
    snapshots: list[Snapshot]
    outline: list[tuple[str, str, str]] = field(default_factory=list)
    cursor: str = field(default="", repr=False)
    is_appended: bool = False


class StoreFormat(Protocol):
    """How one engine lays out its checkpoints. Used in reader processes: imports little, runs nothing."""

    @property
    def engine(self) -> str:
        """The engine's name."""

    @property
    def is_indexed(self) -> bool:
        """Whether its databases are indexed stores."""
        return False

    def ids_in_path(self, path: str) -> RecordedIds:
        """The ids in the relative path of a JSON file."""

    def ids_in_row(self, row_id: str, parent_id: str | None, branch: str) -> RecordedIds:
        """The ids in the columns of a row."""

    def indexed_store(
        self,
        database: Path | DatabaseFile | ServerAddress | SaverAddress,
        limits: ReadLimits,
        formats: "Sequence[StoreFormat]",
        known: KnownSecrets,
    ) -> "IndexedStore | None":
        """Return a store that reads the engine's tables in a database, or None if the engine defines none.

        ``known`` secrets are redacted in all that the store lists.
        """
        return None

    def state_store(
        self, file: DatabaseFile, limits: ReadLimits, formats: "Sequence[StoreFormat]"
    ) -> "Store | None":
        """Return a store of states that the engine writes instead of checkpoints; None if it writes none."""
        return None

    def snapshot_of(self, body: bytes, entry: Entry, ids: RecordedIds) -> Snapshot:
        """The snapshot of a redacted body.

        Raises Foreign for JSON that is not a checkpoint of this engine, and msgspec.DecodeError for other
        text.
        """


class Store(Protocol):
    """An open store, as the docstring of this module describes."""

    @property
    def kind(self) -> StoreKind:
        """What rows record as the kind of the store."""

    @property
    def limits(self) -> ReadLimits:
        """The limits that the store enforces."""

    @property
    def formats(self) -> Sequence[StoreFormat]:
        """The formats of the engines that may have written its checkpoints, tried in this order."""

    def __enter__(self) -> Self:
        """Open the store. Raises LocationUnreadable."""

    def __exit__(self, *_: object) -> None:
        """Close the store."""

    def entries(self) -> Iterator[Entry | ReadProblem]:
        """Every entry, without reading it. Raises LocationUnreadable."""

    def entry(self, key: str) -> Entry | ReadProblem | None:
        """The entry with this real key; None if there is none. Raises LocationUnreadable."""

    def read(self, entry: Entry) -> RawCheckpoint:
        """The bytes of one entry. Raises Unreadable."""


class IndexedStore(Store, Protocol):
    """A store that is too large to be copied: it lists runs, and the checkpoints of one run without bodies.

    Everything that it lists is redacted. ``entry`` and ``read`` accept redacted keys as well.

    Before a query reads the values of a row, the store passes a name of the row to ``announce``. If reading
    it ends the process, the name is in ``skipped`` of the next process, which leaves these values out.
    """

    announce: Callable[[str], None]
    skipped: frozenset[str]

    def abandon(self) -> None:
        """End what another program does for this store. Called by another thread when this process ends."""

    @property
    def engine(self) -> str:
        """The name of the engine that wrote it."""

    def mark(self) -> str:
        """A text that differs if the store may have changed; empty for a file. Raises LocationUnreadable."""

    def runs(self, limit: int | None = None, since: Mapping[str, str] | None = None) -> RunList:
        """The newest runs, or all. With ``since``, parts with the same digest may be left out.

        Raises LocationUnreadable.
        """

    def details(self, keys: Sequence[str]) -> list[IndexedRun]:
        """The runs with these keys, with their counts, times and calls. Raises LocationUnreadable."""

    def index(self, key: str, *, newest_first: bool = False, since: str = "") -> RunIndex:
        """The run with this key and its checkpoints, or those of a long run that a page shows first.

        With ``since``, the cursor of an earlier listing, unchanged checkpoints may be left out. Raises
        LocationUnreadable.
        """


# What can go wrong at a location.
#
# Unreadable                   one file or row; its neighbours are unaffected
# ├── Incomplete               it does not parse, and may still be being written
# ├── Broken                   it is damaged
# ├── LimitExceeded            reading it exceeds a limit
# ├── Foreign                  it is not a checkpoint
# └── Unavailable              its bytes could not be read, so nothing is known about them
# LocationUnreadable           the whole location
# ├── LocationLimitExceeded    reading it exceeds a limit
# └── LocationReplaced         its path leads to something other than what was added


class Unreadable(UserFacingError):
    """One file or row cannot be read. The message is the reason.

    ``entry`` is the entry that was read if it is newer than the listed one.
    """

    kind: ProblemKind = "broken"
    entry: "Entry | None" = None


class Incomplete(Unreadable):
    """It does not parse. It may still be being written; only its age shows whether it is damaged."""

    kind: ProblemKind = "writing"


class Broken(Unreadable):
    """It is damaged."""


class LimitExceeded(Unreadable):
    """It is larger or deeper, or takes more time or memory, than the limits allow."""

    kind: ProblemKind = "refused"


class Foreign(Unreadable):
    """It is complete, but not a checkpoint."""

    kind: ProblemKind = "foreign"


class Unavailable(Unreadable):
    """Its bytes could not be read this time. The next import tries again."""

    kind: ProblemKind = "unavailable"


class LocationUnreadable(UserFacingError):
    """Nothing at the location can be read. The message says why, and what to do."""


class LocationLimitExceeded(LocationUnreadable):
    """Listing the location exceeds a limit. It is not tried again until the location changes."""


class LocationReplaced(LocationUnreadable):
    """The path leads to something other than what was added.

    ``identity`` identifies the folder or file at the path now; empty if it must not be opened at all.
    """

    identity: str = ""


def too_slow(limits: ReadLimits) -> LimitExceeded:
    """The error for an entry that takes too much processor time."""
    return LimitExceeded("store.parse_timed_out", most=f"{limits.max_seconds:g}")


def too_large(size: int, limits: ReadLimits) -> LimitExceeded:
    """The error for an entry of this many bytes."""
    return LimitExceeded(
        "store.file_too_large",
        size=f"{size:,}",
        most=f"{limits.max_bytes:,}",
    )


def too_much_memory(limits: ReadLimits) -> LimitExceeded:
    """The error for an entry that takes too much memory."""
    return LimitExceeded("store.too_much_memory", most=limits.max_memory // 2**20)


# A snapshot in the form in which it is stored: compressed, with its events as bytes.


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
