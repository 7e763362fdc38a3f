"""States of flows that ``@persist`` stored in SQLite. Imported only in a reader process.

Each row of the table ``flow_states`` is the state of a flow after one of its methods. It is read as a
checkpoint with the same fields as those of CrewAI, so that nothing else needs to know the table.
"""

import re
from collections import Counter
from typing import Any, Literal

import msgspec

from viewer.engines.crewai.structs import STATE
from viewer.messages.message import UserMessage
from viewer.stores.errors import Broken, LimitExceeded, LocationUnreadable, Unavailable
from viewer.stores.protocol import Entry, RawCheckpoint, ReadProblem, RecordedIds, row_digest
from viewer.stores.sqlite_store import MAX_ID_LENGTH, SqliteStore, short_text, text_of

TABLE, BRANCH = "flow_states", "main"
TRIGGER = "method_execution_finished"
# The most earlier methods that the checkpoint of a state lists.
MAX_METHODS = 200
_COLUMNS = {"flow_uuid", "method_name", "state_json"}
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)", re.ASCII)


class FlowStates(SqliteStore):
    """The rows of the table ``flow_states`` in one file."""

    kind: Literal["states"] = "states"
    table = TABLE

    def read_schema(self) -> None:
        """Find the plain columns. Raises LocationUnreadable."""
        self._columns, self._rowid = self.plain_columns(TABLE)
        if not self._columns >= _COLUMNS:
            raise LocationUnreadable("crewai.state_columns_missing")

    def entry(self, key: str) -> Entry | ReadProblem | None:
        """The row with this rowid; None if there is none. Raises LocationUnreadable."""
        if not key.isascii() or not key.isdigit() or len(key) > len(str(2**63)):
            return None
        statement = f"{self._select_entry()} WHERE {self._rowid} = CAST(? AS INTEGER)"
        rows = self.retried(lambda: self.query(statement, key))
        return self._entry_or_problem(rows[0]) if rows else None

    def _select_entry(self) -> str:
        size = "octet_length(state_json), typeof(state_json)"
        return f"SELECT {self._rowid}, {size}, {self._names()} FROM {TABLE}"  # noqa: S608

    def _names(self) -> str:
        columns = ("flow_uuid", "method_name", "timestamp")
        return ", ".join(short_text(name, self._columns) for name in columns)

    def _entry_or_problem(self, row: tuple[Any, ...]) -> Entry | ReadProblem:
        rowid, size, kind, *names = row
        fingerprint = f"{rowid}:{kind}:{size}:{row_digest('', b'', names)[:8]}"
        name = text_of(names[0])
        if not name or not name.isprintable() or len(name) > MAX_ID_LENGTH or rowid < 0:
            return ReadProblem(f"row {rowid}", UserMessage("store.row_without_id"), "broken", fingerprint)
        return Entry(str(rowid), fingerprint, size or 0)

    def _read_row(self, entry: Entry) -> RawCheckpoint:
        rowid = int(entry.real_key)
        found = self.query(
            "SELECT typeof(state_json), "  # noqa: S608
            "CASE WHEN typeof(state_json) IN ('blob', 'text') THEN CAST(state_json AS BLOB) END, "
            f"{self._names()} FROM {TABLE} WHERE {self._rowid} = ?",
            rowid,
        )
        if not found:
            raise Unavailable("store.row_vanished")
        kind, stored, *names = found[0]
        if stored is None:
            raise Broken("store.row_not_json_or_text")
        state = _object(self._as_text(kind, stored), self.limits.max_depth)
        earlier = self._earlier(names[0], rowid)
        flow, method, written = map(_shown, names)
        parent = _id(*earlier[0][:2]) if earlier else None
        ids = RecordedIds(_id(rowid, written), parent, BRANCH)
        methods = [*(name for _rowid, _written, name in reversed(earlier)), method]
        document = _document(flow, state, methods, rowid, written)
        return RawCheckpoint(entry, document, lambda _format: ids, row_digest(kind, stored, names))

    def _earlier(self, flow: bytes | None, rowid: int) -> list[tuple[int, str, str]]:
        """The rowid, time and method of earlier states of a flow, the newest first."""
        columns = ", ".join(short_text(name, self._columns) for name in ("timestamp", "method_name"))
        rows = self.query(
            f"SELECT {self._rowid}, {columns} FROM {TABLE} WHERE flow_uuid = CAST(? AS TEXT) "  # noqa: S608
            f"AND {self._rowid} < ? ORDER BY {self._rowid} DESC LIMIT {MAX_METHODS}",
            flow,
            rowid,
        )
        return [(number, _shown(written), _shown(method)) for number, written, method in rows]


def _shown(value: Any) -> str:
    """A text that JSON can hold; empty for anything else."""
    return text_of(value).encode("utf-8", "replace").decode()


def _id(rowid: int, written: str) -> str:
    """An id like those of CrewAI's own checkpoints, with the time and the rowid."""
    match = _TIME.match(written)
    return f"{'{}{}{}T{}{}{}'.format(*match.groups()) if match else 'state'}_{rowid:08x}"


def _object(state: bytes, max_depth: int) -> msgspec.Raw:
    """A state, whose syntax was checked: it becomes a part of a document. Raises Unreadable."""
    try:
        found = msgspec.json.decode(state, type=msgspec.Raw)
    except msgspec.DecodeError:
        raise Broken("store.row_not_json") from None
    except RecursionError:
        raise LimitExceeded("store.nested_json", most=max_depth) from None
    if bytes(found).lstrip()[:1] != b"{":
        raise Broken("crewai.state_not_an_object")
    return found


def _document(flow: str, state: msgspec.Raw, methods: list[str], rowid: int, written: str) -> bytes:
    """The checkpoint of a state, as JSON."""
    counts = Counter(methods)
    # The methods in the order in which each last ran.
    order = list(dict.fromkeys(reversed(methods)))[::-1]
    event = {
        "type": TRIGGER,
        "event_id": f"state-{rowid}",
        "method_name": methods[-1],
        "timestamp": written or None,
        "emission_sequence": rowid,
    }
    entity = {
        "entity_type": STATE,
        "id": flow,
        "checkpoint_state": state,
        "checkpoint_completed_methods": order,
        "checkpoint_method_counts": {name: counts[name] for name in order},
    }
    nodes = {event["event_id"]: {"event": event, "edges": {}}}
    return msgspec.json.encode({"entities": [entity], "event_record": {"nodes": nodes}, "trigger": TRIGGER})
