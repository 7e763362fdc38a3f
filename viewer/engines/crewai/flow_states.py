"""States of flows that ``@persist`` stored in SQLite. Imported only in a reader process.

Each row of the table ``flow_states`` is the state of a flow after one of its methods. It is read as a
checkpoint with the same fields as those of CrewAI, so that nothing else needs to know the table. The newest
state of a flow has what the flow asks a person, if that is in the table ``pending_feedback``.
"""

import re
from collections import Counter
from contextlib import suppress
from typing import Any, Literal

import msgspec

from viewer.engines.crewai.recorded_events import STATE, WAITING
from viewer.messages.message import UserMessage
from viewer.stores import protocol
from viewer.stores.sqlite_store import MAX_ID_LENGTH, SqliteStore, short_text, text_of

TABLE, BRANCH = "flow_states", "main"
TRIGGER = "method_execution_finished"
PENDING = "pending_feedback"
# The most flows whose pending feedback is read.
MAX_PENDING = 10_000
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
            raise protocol.LocationUnreadable("crewai.state_columns_missing")
        self._pending = ""
        with suppress(protocol.LocationUnreadable):
            columns, rowid = self.plain_columns(PENDING)
            if columns >= {"flow_uuid", "context_json"}:
                self._pending = rowid
        # The newest state of each flow that waits for feedback, and what changes with its question.
        self._waiting: dict[int, str] = {}

    def _listed(self) -> list[protocol.Entry | protocol.ReadProblem]:
        self._waiting = self._find_waiting()
        return super()._listed()

    def _find_waiting(self) -> dict[int, str]:
        if not self._pending:
            return {}
        newest = f"SELECT max({self._rowid}) FROM {TABLE} WHERE flow_uuid = {PENDING}.flow_uuid"  # noqa: S608
        found = self.query_undamaged(
            f"SELECT ({newest}), {self._pending}, octet_length(context_json) FROM {PENDING} "  # noqa: S608
            f"ORDER BY {self._pending} DESC LIMIT {MAX_PENDING}"
        )
        return {rowid: f"{number}-{size}" for rowid, number, size in found if isinstance(rowid, int)}

    def entry(self, key: str) -> protocol.Entry | protocol.ReadProblem | None:
        """The row with this rowid; None if there is none. Raises LocationUnreadable."""
        if not key.isascii() or not key.isdigit() or len(key) > len(str(2**63)):
            return None
        statement = f"{self._select_entry()} WHERE {self._rowid} = CAST(? AS INTEGER)"
        self._waiting = self.retried(self._find_waiting)
        rows = self.retried(lambda: self.query(statement, key))
        return self._entry_or_problem(rows[0]) if rows else None

    def _select_entry(self) -> str:
        size = "octet_length(state_json), typeof(state_json)"
        return f"SELECT {self._rowid}, {size}, {self._names()} FROM {TABLE}"  # noqa: S608

    def _names(self) -> str:
        columns = ("flow_uuid", "method_name", "timestamp")
        return ", ".join(short_text(name, self._columns) for name in columns)

    def _entry_or_problem(self, row: tuple[Any, ...]) -> protocol.Entry | protocol.ReadProblem:
        rowid, size, kind, *names = row
        fingerprint = f"{rowid}:{kind}:{size}:{protocol.row_digest('', b'', names)[:8]}"
        if waits := self._waiting.get(rowid):
            fingerprint += f":{waits}"
        name = text_of(names[0])
        if not name or not name.isprintable() or len(name) > MAX_ID_LENGTH or rowid < 0:
            return protocol.ReadProblem(
                f"row {rowid}", UserMessage("store.row_without_id"), "broken", fingerprint
            )
        return protocol.Entry(str(rowid), fingerprint, size or 0)

    def _read_row(self, entry: protocol.Entry) -> protocol.RawCheckpoint:
        rowid = int(entry.real_key)
        found = self.query(
            "SELECT typeof(state_json), "  # noqa: S608
            "CASE WHEN typeof(state_json) IN ('blob', 'text') THEN CAST(state_json AS BLOB) END, "
            f"{self._names()} FROM {TABLE} WHERE {self._rowid} = ?",
            rowid,
        )
        if not found:
            raise protocol.Unavailable("store.row_vanished")
        kind, stored, *names = found[0]
        if stored is None:
            raise protocol.Broken("store.row_not_json_or_text")
        state = _object(self._as_text(kind, stored), self.limits.max_depth)
        earlier = self._earlier(names[0], rowid)
        flow, method, written = map(_shown, names)
        parent = _id(*earlier[0][:2]) if earlier else None
        ids = protocol.RecordedIds(_id(rowid, written), parent, BRANCH)
        methods = [*(name for _rowid, _written, name in reversed(earlier)), method]
        question = self._question(names[0], rowid)
        document = _document(flow, state, methods, rowid, written, question)
        return protocol.RawCheckpoint(
            entry, document, lambda _format: ids, protocol.row_digest(kind, stored, names)
        )

    def _question(self, flow: bytes | None, rowid: int) -> msgspec.Raw | None:
        """What the flow asks a person, if this is its newest state; None if it asks nothing."""
        if not self._pending:
            return None
        later = f"SELECT 1 FROM {TABLE} WHERE flow_uuid = CAST(?1 AS TEXT) AND {self._rowid} > ?2"  # noqa: S608
        found = self.query_undamaged(
            f"SELECT CASE WHEN octet_length(context_json) <= {self.limits.max_bytes} "  # noqa: S608
            f"THEN CAST(context_json AS BLOB) END FROM {PENDING} WHERE flow_uuid = CAST(?1 AS TEXT) "
            f"AND NOT EXISTS ({later}) ORDER BY {self._pending} DESC LIMIT 1",
            flow,
            rowid,
        )
        if not found:
            return None
        try:
            return _object(found[0][0] or b"", self.limits.max_depth)
        except protocol.Unreadable:
            # The flow waits, but what it asks cannot be read.
            return msgspec.Raw(b"{}")

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
        raise protocol.Broken("store.row_not_json") from None
    except RecursionError:
        raise protocol.LimitExceeded("store.nested_json", most=max_depth) from None
    if bytes(found).lstrip()[:1] != b"{":
        raise protocol.Broken("crewai.state_not_an_object")
    return found


def _document(
    flow: str,
    state: msgspec.Raw,
    methods: list[str],
    rowid: int,
    written: str,
    question: msgspec.Raw | None,
) -> bytes:
    """The checkpoint of a state, as JSON."""
    trigger = TRIGGER if question is None else WAITING
    counts = Counter(methods)
    # The methods in the order in which each last ran.
    order = list(dict.fromkeys(reversed(methods)))[::-1]
    event = {
        "type": trigger,
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
    if question is not None:
        entity[PENDING] = question
    nodes = {event["event_id"]: {"event": event, "edges": {}}}
    return msgspec.json.encode({"entities": [entity], "event_record": {"nodes": nodes}, "trigger": trigger})
