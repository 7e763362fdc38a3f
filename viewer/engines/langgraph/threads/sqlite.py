"""LangGraph's tables in a SQLite file, opened to read them. Imported only in a reader process."""

from collections.abc import Callable, Mapping
from typing import Literal

import apsw

from viewer.engines.langgraph.decoding import Decoder
from viewer.engines.langgraph.tables import CheckpointKey
from viewer.engines.langgraph.tables.sqlite import SqliteRows
from viewer.engines.langgraph.threads import CHECKPOINT_COLUMNS, WRITE_COLUMNS, Result, StoredCheckpoint
from viewer.stores.protocol import LocationUnreadable, Unavailable, too_large
from viewer.stores.sqlite_file import row_error
from viewer.stores.sqlite_store import SqliteFile

_CHECKPOINT_COLUMNS = CHECKPOINT_COLUMNS | {"checkpoint_id", "parent_checkpoint_id"}
_WRITE_COLUMNS = WRITE_COLUMNS | {"value"}


class SqliteTables(SqliteFile):
    """``Tables`` of a file: ``checkpoints`` and ``writes``."""

    kind: Literal["sqlite"] = "sqlite"
    rows: SqliteRows

    def read_schema(self) -> None:
        """Check the columns of both tables. Raises LocationUnreadable."""
        columns, of_checkpoints = self.plain_columns("checkpoints")
        if not columns >= _CHECKPOINT_COLUMNS:
            raise LocationUnreadable("langgraph.columns_missing", table="checkpoints")
        columns, of_writes = self.plain_columns("writes")
        if not columns >= _WRITE_COLUMNS:
            raise LocationUnreadable("langgraph.columns_missing", table="writes")
        self.rows = SqliteRows(self.database.run, columns, (of_checkpoints, of_writes))

    @property
    def finds_appended(self) -> bool:
        """Whether rows and their digest are read from one state."""
        return self.database.reads_one_state

    def abandon(self) -> None:
        """Does nothing: no other program reads the file for this one."""

    def mark(self) -> str:
        """Returns an empty text: the size and times of a file show that it has changed."""
        return ""

    def changed_threads(self, since: Mapping[str, str]) -> None:
        """Returns None: a file that has not changed is not read at all."""

    def retried(self, read: Callable[[], Result]) -> Result:
        """What ``read`` returns, from one state of a file in WAL mode. Raises LocationUnreadable."""

        def read_one_state() -> Result:
            with self.database.one_state():
                return read()

        return super().retried(read_one_state)

    def checkpoint(
        self, key: CheckpointKey, max_bytes: int, decoder: Decoder | None = None
    ) -> StoredCheckpoint:
        """A checkpoint with its values. Raises Unreadable."""
        try:
            found = self.rows.checkpoint(key)
        except (apsw.Error, MemoryError) as error:
            raise row_error(error, self.limits) from None
        if found is None:
            raise Unavailable("store.row_vanished")
        if found.size > max_bytes:
            raise too_large(found.size, self.limits)
        values = (decoder or Decoder(self.limits)).value(found.kind, found.body)
        return StoredCheckpoint(found.parent_id or None, found.size, values, found.metadata)
