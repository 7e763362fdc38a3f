"""Turns rows of LangGraph's tables into the redacted columns of Forkline's index."""

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

from viewer.engines.langgraph import identifiers, super_steps
from viewer.engines.langgraph.super_steps import fields_of, mapping, sequence
from viewer.redaction.known_secrets import KnownSecrets, redact_text
from viewer.stores.protocol import IndexedRun, ModelCall, Snapshot, call_of

# The model calls that a thread's messages record, and the duration of its super-steps.


ANSWERS = ("AIMessage", "AIMessageChunk")
# The keys under which providers store the name of the model.
_MODEL = ("model_name", "model", "model_id")


def calls_in(checkpoint: Mapping[str, Any]) -> dict[str, ModelCall]:
    """The model calls that the messages of a decoded checkpoint record, by the message's id."""
    found: dict[str, ModelCall] = {}
    for channel, value in mapping(checkpoint.get("channel_values")).items():
        found.update(calls_of(value, channel))
    return found


def calls_of(value: Any, channel: str) -> Iterator[tuple[str, ModelCall]]:
    """The message id and call of each answer in a channel's value: a message, or a list of messages."""
    for number, one in enumerate([value] if isinstance(value, dict) else sequence(value)):
        fields = mapping(fields_of(one, *ANSWERS))
        if (call := call_in_message(fields)) is not None:
            yield str(fields.get("id") or f"{channel} {number}"), call


def call_in_message(fields: Mapping[str, Any]) -> ModelCall | None:
    """The model call that wrote a message; None if the message does not record its usage."""
    response = mapping(fields.get("response_metadata"))
    usage = mapping(fields.get("usage_metadata")) or mapping(response.get("token_usage"))
    if not usage:
        return None
    model = next((name for key in _MODEL if isinstance(name := response.get(key), str) and name), "")
    return call_of(usage, model)


def seconds_of(rows: Iterable["IndexedRow"]) -> float:
    """The seconds that the super-steps of these rows took. The rows must be linked.

    Waits for the next turn, for an answer, for another attempt or for a fork are not counted.
    """
    seconds = 0.0
    for row in rows:
        before = row.parent
        if before is None or row.metadata.source != "loop" or before.children[0] is not row:
            continue
        start, end = (identifiers.created_at(one.checkpoint_id) for one in (before, row))
        has_stopped = any(
            {super_steps.ERROR, super_steps.INTERRUPT} & attempt.indexes for attempt in before.attempts
        )
        if start and end and not has_stopped:
            seconds += max(0.0, (end - start).total_seconds())
    return seconds


# Turns rows of LangGraph's tables into the redacted columns of Forkline's index, without bodies.


ENGINE, KIND = "langgraph", "graph"
FIRST_BRANCH = "main"
SOURCES = ("input", "loop", "update", "fork")
# The suffixes of the trigger of the head of a branch.
FAILED, WAITING, ENDED, UNFINISHED = "_failed", "_waiting", "_ended", "_unfinished"
MAX_UNITS = 30


class Metadata(msgspec.Struct):
    """The metadata of a checkpoint. In old stores, ``writes`` has the writes of each node."""

    source: str = ""
    # Larger numbers cannot be stored in a column.
    step: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | None = None
    parents: dict[str, str] = {}
    writes: dict[str, msgspec.Raw] | None = None


_metadata = msgspec.json.Decoder(Metadata)
# Each field of the metadata, alone.
_fields = {
    field.name: msgspec.json.Decoder(msgspec.defstruct("Field", [(field.name, field.type)]))
    for field in msgspec.structs.fields(Metadata)
}
_INVALID = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(slots=True)
class IndexedRow:
    """A row of the table ``checkpoints`` without its body, and the tasks of the table ``writes``."""

    namespace: str
    checkpoint_id: str
    parent_id: str | None
    size: int
    metadata: Metadata
    mark: str
    attempts: list[super_steps.Attempt] = field(default_factory=list)
    children: list["IndexedRow"] = field(default_factory=list)
    parent: "IndexedRow | None" = None
    turn: int = 0
    branch: str = ""


# Returns the decoded checkpoint of a row; empty if it cannot be decoded or the budget is used up.
Body = Callable[[IndexedRow], Mapping[str, Any]]


def metadata_of(data: bytes | None) -> Metadata:
    """The metadata. Fields that do not have LangGraph's format are empty."""
    try:
        return _metadata.decode(data or b"{}")
    except _INVALID:
        found = Metadata()
    for name, decoder in _fields.items():
        with suppress(*_INVALID):
            setattr(found, name, getattr(decoder.decode(data or b""), name))
    return found


def linked(rows: Sequence[IndexedRow]) -> None:
    """Set each row's parent, children, turn and branch. The rows are sorted by namespace and id."""
    by_id = {(row.namespace, row.checkpoint_id): row for row in rows}
    for row in rows:
        parent = by_id.get((row.namespace, row.parent_id or ""))
        # A parent is older than its child. This also excludes cycles.
        if parent is not None and parent.checkpoint_id < row.checkpoint_id:
            row.parent = parent
            parent.children.append(row)
    taken: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        before = row.parent
        row.turn = (before.turn if before else 0) + (row.metadata.source == "input")
        if before is not None and before.children[0] is row:
            row.branch = before.branch
        elif before is None and not taken[row.namespace]:
            row.branch = FIRST_BRANCH
        else:
            row.branch = _new_branch(row.checkpoint_id, taken[row.namespace])
        taken[row.namespace].add(row.branch)


def _new_branch(checkpoint_id: str, taken: set[str]) -> str:
    """A name for the branch that begins with a checkpoint, since LangGraph has no names for branches.

    It is made from the id, so that every import gives the same name.
    """
    digest = f"{zlib.crc32(checkpoint_id.encode('utf-8', 'replace')):08x}"
    tail = checkpoint_id.replace("-", "")[-12:]
    text = tail if tail.isalnum() and tail.isascii() and len(tail) == 12 else digest
    for length in range(4, len(text)):
        if (name := f"fork-{text[-length:]}") not in taken:
            return name
    return f"fork-{digest}-{text}"


@dataclass(frozen=True, slots=True)
class Indexer:
    """Makes the columns of a thread's checkpoints and runs. ``thread`` is the real id."""

    thread: str
    known: KnownSecrets
    body: Body
    # Nodes by task id, for tasks whose path does not name the node.
    nodes: dict[str, str] = field(default_factory=dict)
    # The newest checkpoints of other threads, read only if a checkpoint of the first versions needs them.
    others: Callable[[], Sequence[Mapping[str, Any]]] = tuple

    def snapshots(self, rows: Sequence[IndexedRow]) -> list[Snapshot]:
        """The redacted columns of each row. Links the rows."""
        linked(rows)
        self.add_nodes(row.namespace for row in rows)
        return self.columns_of(rows)

    def add_nodes(self, namespaces: Iterable[str]) -> None:
        """Add the nodes that called these namespaces. Each contains the id and the node of its task."""
        self.nodes.update((identifiers.task_of(one), identifiers.node_of(one)) for one in namespaces)

    def columns_of(self, rows: Sequence[IndexedRow]) -> list[Snapshot]:
        """The redacted columns of these linked rows."""
        return [self._snapshot(row) for row in rows]

    def runs(
        self, rows: Sequence[IndexedRow], firsts: Mapping[str, IndexedRow] = MappingProxyType({})
    ) -> list[IndexedRun]:
        """The runs of the thread and of its namespaces. A caller comes before the runs that it called.

        ``firsts`` are the oldest rows of namespaces of which only newer rows are given.
        """
        by_namespace: dict[str, list[IndexedRow]] = defaultdict(list)
        for row in rows:
            by_namespace[row.namespace].append(row)
        calls = {name: self._calls(own) for name, own in by_namespace.items()}
        grouped = sorted(by_namespace.items())
        return [self._run(firsts.get(name, own[0]), own[-1], own, calls) for name, own in grouped]

    def _calls(self, rows: Sequence[IndexedRow]) -> dict[str, ModelCall]:
        """The model calls that the newest checkpoint of each branch records, by message id."""
        found: dict[str, ModelCall] = {}
        for row in rows:
            if not row.children:
                found.update(calls_in(self.body(row)))
        return found

    def _run(
        self,
        first: IndexedRow,
        head: IndexedRow,
        rows: Sequence[IndexedRow],
        calls: Mapping[str, Mapping[str, ModelCall]],
    ) -> IndexedRun:
        own = {
            message: call
            for namespace, some in calls.items()
            if identifiers.is_within(namespace, head.namespace)
            for message, call in some.items()
        }
        thread, namespace = self._shown(self.thread), self._shown_namespace(head.namespace)
        outer = identifiers.parent_namespace(head.namespace)
        called_from = first.metadata.parents.get(outer, "") if head.namespace else ""
        return IndexedRun(
            key=identifiers.run_key(thread, namespace),
            head=self._shown(head.checkpoint_id)[: identifiers.MAX_ID_LENGTH],
            last_at=identifiers.created_at(head.checkpoint_id),
            first_at=identifiers.created_at(first.checkpoint_id),
            calls=redacted_calls(own.values(), self.known),
            seconds=round(seconds_of(rows), 3),
            namespace=namespace,
            name=f"{thread} · {identifiers.title_of(namespace)}" if namespace else "",
            parent_key=identifiers.run_key(thread, self._shown_namespace(outer)) if head.namespace else "",
            called_from=self._shown(called_from),
            status=status_of(head.attempts),
        )

    def _shown(self, text: str) -> str:
        return identifiers.shown_id(text, self.known)

    def _shown_namespace(self, namespace: str) -> str:
        return identifiers.shown_namespace(namespace, self.known)

    def _snapshot(self, row: IndexedRow) -> Snapshot:
        thread, namespace = self._shown(self.thread), self._shown_namespace(row.namespace)
        checkpoint_id = self._shown(row.checkpoint_id)
        units, suffix = self._units(row)
        source = row.metadata.source if row.metadata.source in SOURCES else ""
        mark = f"{row.mark}:{zlib.crc32(repr((units, suffix, row.branch)).encode()):08x}"
        return Snapshot(
            key=identifiers.source_key(thread, namespace, checkpoint_id),
            fingerprint=mark,
            size=row.size,
            checkpoint_id=checkpoint_id,
            parent_id=self._shown(row.parent_id) if row.parent_id else None,
            branch=row.branch,
            trigger=f"{source}{suffix}",
            created_at=identifiers.created_at(row.checkpoint_id),
            entity=KIND,
            name=f"{thread} · {identifiers.title_of(namespace)}" if namespace else "",
            run_key=identifiers.run_key(thread, namespace),
            engine=ENGINE,
            step=row.metadata.step,
            turn=row.turn,
            units=units,
        )

    def _units(self, row: IndexedRow) -> tuple[list[tuple[str, str]], str]:
        """The nodes that ran or are pending, each with its status, and the suffix of the trigger."""
        units = [(node, "done") for node in self._ran(row)]
        suffix = ""
        if not row.children:
            pending, suffix = self._pending(row)
            units += pending
        shown = [(redact_text(node, self.known)[:100], status) for node, status in units[:MAX_UNITS]]
        return shown, suffix

    def _ran(self, row: IndexedRow) -> list[str]:
        """The nodes that ran between the parent of a checkpoint and the checkpoint."""
        if row.parent is None or row.metadata.source != "loop":
            return []
        if row.metadata.writes is not None:
            return sorted(node for node in row.metadata.writes if not node.startswith("__"))
        before = [one for one in row.parent.attempts if not one.is_late]
        done = [attempt for attempt in before if attempt.status == "done"]
        if _is_after_several(row, row.parent) or any(one.status == "waiting" for one in before):
            # With ``durability="exit"``, most tasks are not stored.
            return super_steps.nodes_that_ran(self.body(row.parent), self.body(row))
        nodes = [super_steps.node_in_path(attempt.path) for attempt in done]
        if done and not all(nodes):
            after = self.body(row)
            if any(one.is_called for one in done) or super_steps.is_functional(after):
                named = self._named(row.parent, done, _seen(after))
                nodes = [node for _attempt, node in named]
        if not nodes or not all(nodes):
            return super_steps.nodes_that_ran(self.body(row.parent), self.body(row))
        return sorted(node for node in nodes if not node.startswith("__"))

    def _named(
        self, row: IndexedRow, attempts: Sequence[super_steps.Attempt], names: Iterable[str] = ()
    ) -> list[tuple[super_steps.Attempt, str]]:
        """Each of these tasks of a row with its node, or the function that it is a call of."""
        checkpoint = self.body(row)
        found = super_steps.names_by_id(attempts, _place(row), checkpoint, names)
        return super_steps.named_attempts(attempts, checkpoint, {**self.nodes, **found})

    def _pending(self, row: IndexedRow) -> tuple[list[tuple[str, str]], str]:
        """The unfinished tasks or next nodes of the head of a branch, and the suffix of its trigger."""
        checkpoint = self.body(row)
        named = self._named(row, row.attempts)
        # Only functions, whose input is at the checkpoint where they run, leave no trace of their names.
        is_input = super_steps.START in mapping(checkpoint.get("channel_values"))
        unnamed = [one for one, node in named if not node and one.status != "done"]
        if any(is_input or one.is_called for one in unnamed):
            named = self._named(row, row.attempts, [name for one in self.others() for name in _seen(one)])
        pending = [(node, attempt.status) for attempt, node in named if attempt.status != "done"]
        status = status_of(row.attempts)
        if status:
            return pending, f"_{status}"
        nodes = super_steps.open_nodes(named, _place(row), checkpoint)
        if not nodes and not super_steps.next_nodes(checkpoint) and not super_steps.is_last(checkpoint):
            finished = [node for attempt, node in named if attempt.status == "done"]
            others = super_steps.next_by_others(checkpoint, self.others())
            nodes = [node for node in others if node not in finished]
        following = [(node, "next") for node in nodes]
        is_end = bool(checkpoint) and not following and row.metadata.source != "input"
        # The first versions record neither static breakpoints nor, in shallow savers, interrupts.
        is_end = is_end and super_steps.is_last(checkpoint)
        if is_end:
            return [], ENDED
        is_unfinished = any(not node.startswith("__") for node, _status in following)
        return following if is_unfinished else [], UNFINISHED if is_unfinished else ""


def _is_after_several(row: IndexedRow, parent: IndexedRow) -> bool:
    """Whether several steps lie between a checkpoint and its parent."""
    steps = row.metadata.step, parent.metadata.step
    return None not in steps and (steps[0] or 0) - (steps[1] or 0) > 1


def _seen(checkpoint: Mapping[str, Any]) -> list[str]:
    """The nodes and functions that have run before a checkpoint."""
    return list(mapping(checkpoint.get("versions_seen")))


def _place(row: IndexedRow) -> super_steps.Place:
    """Where the tasks after a row run."""
    return super_steps.Place.after(row.namespace, row.checkpoint_id, row.metadata.step)


def status_of(attempts: Sequence[super_steps.Attempt]) -> str:
    """``failed`` or ``waiting`` if one of these tasks is, else empty."""
    statuses = {attempt.status for attempt in attempts}
    return next((status for status in ("failed", "waiting") if status in statuses), "")


def add_stray_interrupts(
    rows: Sequence[IndexedRow], attempts: Mapping[tuple[str, str], Sequence[super_steps.Attempt]]
) -> None:
    """Add the interrupts that belong to the newest checkpoint of a namespace, but are not recorded at it.

    In the first versions, a shallow saver writes interrupts before their checkpoint, and may delete those of
    a graph but not of its subgraph, or the reverse.
    """
    heads: dict[str, IndexedRow] = {}
    for row in rows:
        if row.namespace not in heads or heads[row.namespace].checkpoint_id < row.checkpoint_id:
            heads[row.namespace] = row
    for (namespace, checkpoint_id), found in attempts.items():
        head = heads.get(namespace)
        if head is not None and head.checkpoint_id < checkpoint_id:
            head.attempts = [*head.attempts, *(one for one in found if one.status in ("failed", "waiting"))]
    # The innermost first.
    for namespace, head in sorted(heads.items(), key=lambda pair: -len(identifiers.levels(pair[0]))):
        outer, task = heads.get(identifiers.parent_namespace(namespace)), identifiers.task_of(namespace)
        if (
            not namespace
            or outer is None
            or head.metadata.parents.get(outer.namespace) != outer.checkpoint_id
        ):
            continue
        statuses = {one.task_id: one.status for one in outer.attempts}
        if status_of(head.attempts) == "waiting" and task not in statuses:
            outer.attempts = [*outer.attempts, _interrupted(task)]
        elif not head.attempts and statuses.get(task) == "waiting":
            head.attempts = [_interrupted("")]


def _interrupted(task: str) -> super_steps.Attempt:
    return super_steps.Attempt(task, "", frozenset({super_steps.INTERRUPT}))


def parents_in(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The ids of the checkpoints of outer namespaces during which a checkpoint was written, by namespace."""
    return mapping(metadata.get("parents"))


def redacted_calls(calls: Iterable[ModelCall], known: KnownSecrets) -> list[ModelCall]:
    """The calls with redacted names of models."""
    return [call._replace(model=redact_text(call.model, known)) for call in calls]
