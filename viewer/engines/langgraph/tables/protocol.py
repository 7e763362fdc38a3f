"""The interface to the tables of a checkpoint saver, for each kind of database."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar

from viewer.engines.langgraph.decoding import Decoder
from viewer.stores.protocol import ReadLimits

Result = TypeVar("Result")
# The most rows of a thread that are indexed, the newest. More could exceed the time limit of a reader.
MAX_ROWS = 20_000
# More appended rows are listed with all others.
MAX_APPENDED = 1_000
MAX_WRITES = 10_000
MAX_NAMING_BYTES = 4_096
MAX_METADATA_BYTES = 1024 * 1024
CHECKPOINT_COLUMNS = frozenset({"thread_id", "checkpoint_ns", "type", "checkpoint", "metadata"})
WRITE_COLUMNS = frozenset(
    {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type"}
)


class CheckpointKey(NamedTuple):
    """The columns that identify a checkpoint in the tables."""

    thread: str
    namespace: str
    checkpoint_id: str


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread and its newest checkpoint.

    ``kind`` is the type of the thread's id in the database. ``id`` is empty if it is not a text.
    """

    id: str
    kind: str
    head: str


class Ends(NamedTuple):
    """The ids of the newest and oldest checkpoints of a thread, and the numbers of checkpoints and steps."""

    newest: str
    oldest: str
    checkpoints: int
    steps: int


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """A checkpoint without its body. ``mark`` changes if the body may have; ``size`` is in bytes."""

    namespace: str
    checkpoint_id: str
    parent_id: str | None
    size: int
    mark: str
    metadata: bytes | None


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint with its values, decoded and unredacted."""

    parent_id: str | None
    size: int
    values: Any = field(repr=False)
    metadata: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class WriteRow:
    """A write of a task. ``value`` is None if it is larger than the budget. ``size`` is in bytes."""

    task_id: str
    task_path: str
    index: int
    channel: str
    kind: str
    size: int
    value: bytes | None = field(repr=False)


class AppendedRows(Protocol):
    """Finds what was appended to a thread, of which the other rows are not read again.

    Its methods are called within ``Tables.retried``, and raise what it turns into LocationUnreadable.
    """

    def digest(self, thread: str, last: str, heads: Sequence[str]) -> str:
        """A text that differs if a checkpoint up to ``last`` was added, replaced or deleted.

        The same holds for the writes of these checkpoints, except those of ``heads``. Returns an empty text
        if the rows cannot be compared.
        """

    def ids_after(self, thread: str, last: str) -> list[tuple[str, str]]:
        """The namespaces and ids of the newer checkpoints, at most ``MAX_APPENDED`` and one more."""

    def checkpoints(self, thread: str, keys: Sequence[tuple[str, str]]) -> Iterable[CheckpointRow]:
        """The checkpoints with these namespaces and ids."""

    def tasks(self, thread: str, keys: Sequence[tuple[str, str]]) -> Iterable[tuple[str, str, str, str, int]]:
        """The writes of these checkpoints, as ``Tables.tasks`` returns them."""

    def first_id(self, thread: str, namespace: str) -> str:
        """The id of the oldest checkpoint of a namespace."""


class Tables(Protocol):
    """The open tables of a database, which are only read.

    All methods but ``retried`` and ``mark`` are called within ``retried``. They raise what ``retried``
    turns into LocationUnreadable.
    """

    @property
    def kind(self) -> Literal["sqlite", "postgresql"]:
        """What rows record as the kind of the store."""

    @property
    def limits(self) -> ReadLimits:
        """The limits that reading enforces."""

    @property
    def has_last_only(self) -> bool:
        """Whether only the newest checkpoint of each namespace is stored, as the shallow savers do."""

    @property
    def appended(self) -> AppendedRows | None:
        """What finds appended rows; None if this kind of database cannot."""

    def __enter__(self) -> Self:
        """Open the database, and check its tables. Raises LocationUnreadable."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the database."""

    def abandon(self) -> None:
        """As ``IndexedStore.abandon``."""

    def retried(self, read: Callable[[], Result]) -> Result:
        """What ``read`` returns while the database does not change. Raises LocationUnreadable."""

    def mark(self) -> str:
        """What ``IndexedStore.mark`` returns. Raises LocationUnreadable."""

    def threads(self) -> Iterable[ThreadRow]:
        """Every thread."""

    def changed_threads(self, known: Mapping[str, str]) -> tuple[Iterable[ThreadRow], frozenset[str]] | None:
        """The threads of the parts whose digests differ from ``known``, and the names of these parts.

        Threads with unreadable ids are always included. None if the kind of database cannot compare digests.
        """

    def has_thread(self, thread: str) -> bool:
        """Whether there is a thread with this id."""

    def ends(self, thread: str) -> Ends:
        """The newest and oldest checkpoints of a thread, and its numbers of checkpoints and steps."""

    def head_writes(self, thread: str, head: str) -> Iterable[tuple[str, int]]:
        """The task and index of each write of a thread's newest checkpoint, or after it."""

    def parents(self, thread: str) -> Iterable[tuple[str, str]]:
        """The id of each of the newest checkpoints of a thread's own graph, and of its parent, if any."""

    def namespaces(self, thread: str) -> Iterable[str]:
        """The namespaces of the subgraphs that a thread called."""

    def checkpoints(self, thread: str, ids: Sequence[str] | None = None) -> Iterable[CheckpointRow]:
        """The newest checkpoints of a thread. With ``ids``, only these, without those of subgraphs."""

    def tasks(
        self, thread: str, ids: Sequence[str] | None = None
    ) -> Iterable[tuple[str, str, str, str, int]]:
        """The namespace, checkpoint, task, path and index of each write of a thread, in this order.

        With ``ids``, only the writes of these checkpoints, without those of subgraphs.
        """

    def naming_writes(self, thread: str) -> Iterable[WriteRow]:
        """The small writes of a thread that name the nodes of tasks; empty if tasks have paths."""

    def size_of(self, key: CheckpointKey) -> int | None:
        """The size of a checkpoint in bytes; None if it does not exist."""

    def checkpoint(
        self, key: CheckpointKey, max_bytes: int, decoder: Decoder | None = None
    ) -> StoredCheckpoint:
        """A checkpoint. Values beyond ``max_bytes`` may be opaque. Raises Unreadable.

        A ``decoder`` limits the memory of several checkpoints and writes together.
        """

    def writes(self, key: CheckpointKey, budget: int) -> Iterable[WriteRow]:
        """The writes of a checkpoint's tasks, by task and index. Larger values than the budget are None."""
