"""LangGraph's tables, as its checkpoint savers write them: the SQL, and the shapes of rows.

Standard library only: the runner loads this package by its path, since a project may have a package
``viewer``. The caller opens the database, and gives a function that returns the rows of a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

# The most rows of a thread that are indexed, the newest. More could exceed the time limit of a reader.
MAX_ROWS = 20_000
MAX_WRITES = 10_000
MAX_NAMING_BYTES = 4_096
MAX_METADATA_BYTES = 1024 * 1024
# Far longer than any id. Longer ones are no keys that the engine writes.
MAX_ID_BYTES = 4096
# A budget for values that no value exceeds.
UNLIMITED = 2**40
# The channel of the engine's internal writes that start tasks of the next step.
TASKS = "__pregel_tasks"
# The prefixes of channels that drive the graph and are not part of its state. None is a ``DeltaChannel``.
CONTROL = ("__", "branch:", "join:", "start:")
# Returns the rows of a statement with these values, perhaps one by one.
Query = Callable[..., Iterable[tuple[Any, ...]]]
# The namespace and id of a checkpoint in a thread.
Key = tuple[str, str]


class CheckpointKey(NamedTuple):
    """The columns that identify a checkpoint. The namespace of a thread's own graph is empty."""

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
class BodyRow:
    """A checkpoint with its body, as a row of a SQLite file. ``size`` is in bytes."""

    parent_id: str
    kind: str
    size: int
    body: bytes | None = field(repr=False)
    metadata: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class WriteRow:
    """A write of a task, with a negative index for special writes. ``size`` is in bytes.

    ``value`` is None if it is larger than the budget.
    """

    task_id: str
    task_path: str
    index: int
    channel: str
    kind: str
    size: int
    value: bytes | None = field(repr=False)


class Rows(Protocol):
    """The rows of a database, which are only read. Methods raise what its query raises."""

    @property
    def has_last_only(self) -> bool:
        """Whether only the newest checkpoint of each namespace is stored, as the shallow savers do."""

    def threads(self) -> Iterable[ThreadRow]:
        """Every thread."""

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

    def checkpoints(self, thread: str, keys: Sequence[Key] | None = None) -> Iterable[CheckpointRow]:
        """The newest checkpoints of a thread, or those with these keys."""

    def tasks(
        self, thread: str, keys: Sequence[Key] | None = None
    ) -> Iterable[tuple[str, str, str, str, int]]:
        """The namespace, checkpoint, task, path and index of each write, in this order.

        The writes are those of a thread, or of its checkpoints with these keys.
        """

    def naming_writes(self, thread: str) -> Iterable[WriteRow]:
        """The small writes of a thread that name the nodes of tasks; empty if tasks have paths."""

    def digest(self, thread: str, last: str, heads: Sequence[str]) -> str:
        """A text that differs if a checkpoint up to ``last`` was added, replaced or deleted.

        The same holds for the writes of these checkpoints, except those of ``heads``. Returns an empty text
        if the rows cannot be compared.
        """

    def keys_after(self, thread: str, last: str, limit: int | None = None) -> list[Key]:
        """The keys of the checkpoints whose ids are greater than ``last``, in order."""

    def first_id(self, thread: str, namespace: str) -> str:
        """The id of the oldest checkpoint of a namespace."""

    def with_id(self, checkpoint_id: str) -> list[CheckpointKey]:
        """The checkpoints with this id: a copied thread has the ids of the original."""

    def inner_checkpoints(self, thread: str) -> Iterable[tuple[str, str, bytes | None]]:
        """The namespace, id and metadata of each checkpoint of a subgraph, oldest first."""

    def parent_of(self, key: CheckpointKey) -> str:
        """The id of a checkpoint's parent; empty if it has none."""

    def size_of(self, key: CheckpointKey) -> int | None:
        """The size of a checkpoint in bytes; None if it does not exist."""

    def writes(self, key: CheckpointKey, budget: int | None = None) -> Iterable[WriteRow]:
        """The writes of a checkpoint's tasks, by task and index.

        With a budget, at most ``MAX_WRITES``, and larger values are None.
        """
