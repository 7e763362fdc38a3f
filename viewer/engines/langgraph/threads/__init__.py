"""Reads the threads of a database that a checkpoint saver of LangGraph writes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

from viewer.engines.langgraph.tables import CheckpointKey, Rows, ThreadRow
from viewer.stores.protocol import ReadLimits

if TYPE_CHECKING:
    from viewer.engines.langgraph.decoding import Decoder

Result = TypeVar("Result")
CHECKPOINT_COLUMNS = frozenset({"thread_id", "checkpoint_ns", "type", "checkpoint", "metadata"})
WRITE_COLUMNS = frozenset(
    {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type"}
)


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint with its values, decoded and unredacted."""

    parent_id: str | None
    size: int
    values: Any = field(repr=False)
    metadata: bytes | None = field(repr=False)


class Tables(Protocol):
    """An open database with LangGraph's tables, which are only read.

    ``rows`` and all methods but ``retried`` and ``mark`` are used within ``retried``. They raise what it
    turns into LocationUnreadable.
    """

    @property
    def kind(self) -> Literal["sqlite", "postgresql", "saver"]:
        """What rows record as the kind of the store."""

    @property
    def limits(self) -> ReadLimits:
        """The limits that reading enforces."""

    @property
    def rows(self) -> Rows:
        """The rows of the tables."""

    @property
    def finds_appended(self) -> bool:
        """Whether ``Rows.digest`` shows that only new rows were appended to a thread."""

    def __enter__(self) -> Self:
        """Open the database, and check its tables. Raises LocationUnreadable."""

    def __exit__(self, *_: object) -> None:
        """Close the database."""

    def abandon(self) -> None:
        """As ``IndexedStore.abandon``."""

    def retried(self, read: Callable[[], Result]) -> Result:
        """What ``read`` returns while the database does not change. Raises LocationUnreadable."""

    def mark(self) -> str:
        """What ``IndexedStore.mark`` returns. Raises LocationUnreadable."""

    def changed_threads(self, since: Mapping[str, str]) -> tuple[Iterable[ThreadRow], frozenset[str]] | None:
        """The threads of the parts whose digests differ from ``since``, and the names of these parts.

        Threads with unreadable ids are always included. None if the kind of database cannot compare digests.
        """

    def checkpoint(
        self, key: CheckpointKey, max_bytes: int, decoder: "Decoder | None" = None
    ) -> StoredCheckpoint:
        """A checkpoint. Values beyond ``max_bytes`` may be opaque. Raises Unreadable.

        A ``decoder`` limits the memory of several checkpoints and writes together.
        """
