"""Patches of how a run is recorded: its checkpoints, its events, and the states of its flows."""

from __future__ import annotations

import contextlib
import functools
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

from crewai.events.event_bus import crewai_event_bus
from crewai.flow.flow import Flow
from crewai.flow.persistence import SQLiteFlowPersistence
from crewai.flow.persistence.base import FlowPersistence
from crewai.state import checkpoint_listener
from crewai.state.provider.json_provider import JsonProvider
from crewai.state.provider.sqlite_provider import SqliteProvider
from crewai.state.runtime import RuntimeState
from pydantic import BaseModel

from forkline_crewai import checkpoints, restoring
from forkline_crewai.checkpoints import Moved, Pins
from forkline_runner.recorded import change_classes
from forkline_runner.reporting import shortened, used_tokens

if TYPE_CHECKING:
    from typing import Self

    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Request

MAX_TRIES = 6
MAX_WRITE_SECONDS = 60
MAX_REASON = 300
# ``depth``: the number of nested checkpoint serializations in this thread.
writing = threading.local()
# ``event``: the engine's event that triggered the checkpoint being written in this thread.
current = threading.local()


def retry_serialization() -> None:
    """Retry the serialization of the engine's state if the state changes during it.

    After about two seconds, the serialization raises RuntimeError.

    Patches: crewai.state.runtime.RuntimeState.model_dump and model_dump_json,
        crewai.flow.flow.Flow._copy_and_serialize_state
    Versions: 1.14.2 and newer
    Why: The run continues while a checkpoint is written. pydantic's serializer then fails, or panics with an
        exception that ``except Exception`` does not catch and that ends the run.
    Test: quality/compatibility/rows/failures.py::panic
    """
    for owner, name in (
        (RuntimeState, "model_dump"),
        (RuntimeState, "model_dump_json"),
        (Flow, "_copy_and_serialize_state"),
    ):
        setattr(owner, name, _retried(getattr(owner, name)))


def _retried(dump: Callable[..., Any]) -> Callable[..., Any]:
    def dumped(self: Any, *args: Any, **named: Any) -> Any:
        writing.depth = getattr(writing, "depth", 0) + 1
        try:
            return _until_unchanged(lambda: dump(self, *args, **named))
        finally:
            writing.depth -= 1

    return dumped


def _until_unchanged(dump: Callable[[], Any]) -> Any:
    for attempt in range(1, MAX_TRIES + 1):
        try:
            return dump()
        except BaseException as error:
            if not _changed_meanwhile(error):
                raise
            if attempt == MAX_TRIES:
                raise RuntimeError(f"the state kept changing while it was written: {error}") from error
            time.sleep(0.02 * 2**attempt)
    raise AssertionError


def _changed_meanwhile(error: BaseException) -> bool:
    return "changed size during iteration" in str(error) or type(error).__name__ == "PanicException"


def name_functions(warn: Callable[..., None]) -> None:
    """Write the names of functions, and the schemas of model classes, into checkpoints.

    ``warn`` is called for each such function.

    Patches: pydantic.BaseModel.model_dump, while a checkpoint is written
    Versions: 1.14.2 and newer
    Why: A single function in the state, such as a tool made by ``@tool``, prevents every checkpoint from
        being written. Newer engines write a model class's schema; older ones fail.
    Test: quality/compatibility/rows/components.py::function_tool
    """
    dump = BaseModel.model_dump

    def fallback(value: Any) -> Any:
        schema: Any = getattr(value, "model_json_schema", None)
        if isinstance(value, type) and schema:
            return schema()
        if not callable(value) or schema:
            raise TypeError(f"Unable to serialize unknown type: {type(value)}")
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(value))}"
        warn("crewai.function_not_stored", name=name)
        return name

    def dumped(self: Any, **named: Any) -> Any:
        # Leave other dumps unchanged: parts of the state are dumped as JSON, too.
        if getattr(writing, "depth", 0):
            named.setdefault("fallback", fallback)
        return dump(self, **named)

    BaseModel.model_dump = dumped  # type: ignore[method-assign]


def pin_locations(request: Request) -> None:
    """Refuse to write to a location that was renamed or replaced since the run began to write there.

    The request's location is pinned now, and each other location when it is first written to.

    Patches: checkpoint of crewai.state.provider.json_provider.JsonProvider,
        crewai.state.provider.sqlite_provider.SqliteProvider and Forkline's OldSqliteProvider
    Versions: 1.14.2 and newer
    Why: The engine would create the location again at the old path.
    Test: tests/runners/stores/test_failed_writes.py::
        test_a_location_renamed_during_a_run_is_not_created_again
    """
    pins = Pins()
    pins.hold(request["location"]["path"], request["location"]["store_kind"] == "json")
    providers: tuple[Any, ...] = (JsonProvider, SqliteProvider, restoring.OldSqliteProvider)
    for provider in providers:
        if "checkpoint" in vars(provider):
            provider.checkpoint = _pinned(provider.checkpoint, pins, provider is JsonProvider)


def _pinned(write: Callable[..., str], pins: Pins, is_folder: bool) -> Callable[..., str]:
    def write_unless_moved(self: Any, data: str, location: str, **named: Any) -> str:
        pins.check(location)
        path = write(self, data, location, **named)
        pins.hold(location, is_folder)
        # If it was moved between the check and the write, the engine has created it again: refuse that too.
        pins.check(location)
        return path

    return write_unless_moved


def write_one_at_a_time(reporter: Reporter) -> None:
    """Write one checkpoint at a time, and report a ``checkpoint_failed`` event for each failed write.

    Patches: crewai.state.checkpoint_listener._do_checkpoint
    Versions: 1.14.2 and newer
    Why: Two writes at once would both name the same parent. The engine only logs a failed write and
        continues.
    Test: tests/runners/stores/test_failed_writes.py::test_a_run_on_a_full_disk_reports_every_failed_write
    """
    lock = threading.RLock()
    write = checkpoint_listener._do_checkpoint

    def written(state: Any, settings: Any, event: Any = None) -> None:
        with lock:
            current.event = event
            try:
                write(state, settings, event)
            except Exception as error:
                reporter.write("checkpoint_failed", error=_reason(error), moved=isinstance(error, Moved))
                raise
            finally:
                current.event = None

    checkpoint_listener._do_checkpoint = written


def _reason(error: Exception) -> str:
    """Return why a write failed, without the path: ``No space left on device``."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return shortened(" ".join(text.split()), MAX_REASON)


def await_writes() -> None:
    """Wait for a checkpoint's write before the run continues: ``emit`` returns only when it is written.

    Patches: crewai.events.event_bus.crewai_event_bus.emit
    Versions: 1.14.2 and newer
    Why: The engine writes checkpoints in other threads while the run continues. A checkpoint could contain
        work that was done after its event, be written out of order, or be lost when the run ends.
    Test: tests/runners/test_patches.py::test_a_run_waits_for_each_checkpoint
    """
    emit = crewai_event_bus.emit

    def emit_and_wait(source: Any, event: Any) -> Any:
        future = emit(source, event)
        should_checkpoint = checkpoint_listener._should_checkpoint
        if future is not None and not _in_a_handler() and should_checkpoint(source, event):
            # The caller receives the future, and with it the exception.
            with contextlib.suppress(Exception):
                future.result(timeout=MAX_WRITE_SECONDS)
        return future

    crewai_event_bus.emit = emit_and_wait


def _in_a_handler() -> bool:
    """Return whether this thread belongs to the event bus, and would therefore wait for itself."""
    thread = threading.current_thread()
    return thread.name.startswith("CrewAISyncHandler") or thread is getattr(
        crewai_event_bus, "_loop_thread", None
    )


def report_checkpoints(reporter: Reporter) -> None:
    """Report a ``checkpoint`` event for each checkpoint when the engine records it as its latest.

    Patches: crewai.state.runtime.RuntimeState._chain_lineage
    Versions: 1.14.2 and newer
    Why: 1.14.2 emits no event for a written checkpoint, and in newer versions none names its parent and
        trigger.
    Test: tests/runners/runs/test_new_runs.py::test_a_new_crew_prunes_only_its_own_checkpoints
    """
    chain = RuntimeState._chain_lineage

    def chained(self: Any, provider: Any, location: str) -> None:
        parent = self._parent_id
        chain(self, provider, location)
        event = getattr(current, "event", None)
        reporter.write(
            "checkpoint",
            id=str(self._checkpoint_id),
            parent=str(parent or ""),
            path=str(location),
            branch=str(self._branch or ""),
            trigger=str(getattr(event, "type", "") or ""),
        )

    RuntimeState._chain_lineage = chained


def prune_older_checkpoints(request: Request, reporter: Reporter) -> None:
    """Delete the older checkpoints of this run as it writes new ones, if a person chose how many to keep.

    Patches: crewai.state.runtime.RuntimeState._chain_lineage
    Versions: 1.14.2 and newer
    Why: The engine's own pruning deletes whatever else is in the folder or on the branch. It is never used.
    Test: tests/runners/runs/test_new_runs.py::test_a_new_crew_prunes_only_its_own_checkpoints
    """
    latest = restoring.chosen_settings(request).get("max_checkpoints")
    if not latest:
        return
    chain = RuntimeState._chain_lineage
    kept: list[checkpoints.Written] = []

    def chained(self: Any, provider: Any, location: str) -> None:
        chain(self, provider, location)
        _prune(kept, latest, str(location), request, reporter)

    RuntimeState._chain_lineage = chained


def _prune(
    kept: list[checkpoints.Written], count: int, path: str, request: Request, reporter: Reporter
) -> None:
    """Add the checkpoint at ``path`` to ``kept``, and delete the oldest ones beyond ``count``.

    ``path`` is a file, or ``store.db#id`` in SQLite.
    """
    is_sqlite = request["location"]["store_kind"] == "sqlite"
    store_kind: checkpoints.StoreKind = "sqlite" if is_sqlite else "json"
    location = request["location"]["path"]
    try:
        # A crew in a flow may write to another location.
        if path.rpartition("#")[0] == location if is_sqlite else Path(path).is_relative_to(location):
            kept.append(checkpoints.written(path, store_kind))
        while len(kept) > count:
            if not checkpoints.delete(kept.pop(0), store_kind):
                reporter.warn("crewai.checkpoint_replaced")
    except (OSError, sqlite3.Error) as error:
        reporter.warn("crewai.pruning_failed", error=error)


# The engine's events, which are written to the spool.


MAX_OUTPUT = 2000
MAX_ARGUMENTS = 1000
# The tokens of all model calls of this run so far.
TOKENS = {"total": 0}
# When the last attempt of each task failed, and its error, until the next attempt.
FAILED_ATTEMPTS: dict[str, tuple[float, str]] = {}


def report_events(reporter: Reporter, positions: Mapping[str, int]) -> None:
    """Report each of the engine's events, in order, before the engine emits it.

    ``positions`` maps task ids to their positions, counted from 1.

    Patches: crewai.events.event_bus.crewai_event_bus.emit
    Versions: 1.14.2 and newer
    Why: A handler that is registered with the event bus runs in another thread, and so in another order.
    Test: tests/runners/runs/test_endings.py::test_streamed_text_and_tokens_are_reported_as_they_arrive
    """
    emit = crewai_event_bus.emit

    def emit_and_report(source: Any, event: Any) -> Any:
        _report_event(reporter, positions, event)
        return emit(source, event)

    crewai_event_bus.emit = emit_and_report


def _report_event(reporter: Reporter, positions: Mapping[str, int], event: Any) -> None:
    write = _WRITERS.get(event.type)
    if write is None:
        return
    try:
        write(reporter, event, positions)
    except Exception as error:
        reporter.warn("crewai.step_not_shown", kind=type(error).__name__, error=error)


def count_tokens(tokens: int) -> int:
    """Return the tokens of the run's model calls so far, with these added."""
    TOKENS["total"] += tokens
    return TOKENS["total"]


def _task(event: Any, positions: Mapping[str, int]) -> dict[str, Any]:
    task = getattr(event, "task", None)
    identifier = str(event.task_id or getattr(task, "id", "") or "")
    return {"task": identifier, "position": positions.get(identifier, 0), "agent": _agent(event)}


def _agent(event: Any) -> str:
    task, agent = getattr(event, "task", None), getattr(event, "agent", None)
    role = (
        event.agent_role
        or getattr(getattr(task, "agent", None), "role", None)
        or getattr(agent, "role", None)
    )
    return str(role or "").strip()


def _task_started(reporter: Reporter, event: Any, positions: Mapping[str, int]) -> None:
    description = getattr(getattr(event, "task", None), "description", None) or event.task_name
    reporter.write(
        "task_started", **_task(event, positions), description=shortened(str(description or ""), MAX_OUTPUT)
    )


def _task_completed(reporter: Reporter, event: Any, positions: Mapping[str, int]) -> None:
    reporter.write(
        "task_completed", **_task(event, positions), output=shortened(str(event.output.raw), MAX_OUTPUT)
    )


def _task_failed(reporter: Reporter, event: Any, positions: Mapping[str, int]) -> None:
    reporter.write("task_failed", **_task(event, positions), error=shortened(str(event.error), MAX_OUTPUT))


def _attempt_failed(reporter: Reporter, event: Any, positions: Mapping[str, int]) -> None:
    """Remember that a guardrail refused the output of a task, or that its agent failed."""
    if not getattr(event, "success", False):
        error = shortened(str(event.error or ""), MAX_OUTPUT)
        FAILED_ATTEMPTS[_task(event, positions)["task"]] = time.monotonic(), error


def _attempt_started(reporter: Reporter, event: Any, positions: Mapping[str, int]) -> None:
    task = _task(event, positions)
    if task["task"] and (failure := FAILED_ATTEMPTS.pop(task["task"], None)) is not None:
        failed_at, error = failure
        waited = round(time.monotonic() - failed_at, 6)
        reporter.write("task_retried", **task, error=error, waited=waited)


def _method(kind: str) -> Callable[..., None]:
    def write(reporter: Reporter, event: Any, positions: Mapping[str, int]) -> None:
        error = {"error": shortened(str(event.error), MAX_OUTPUT)} if kind == "method_failed" else {}
        reporter.write(kind, method=str(event.method_name), **error)

    return write


def _model_started(reporter: Reporter, event: Any, positions: Mapping[str, int]) -> None:
    reporter.write("model_started", model=str(event.model or ""), agent=_agent(event))


def _model_completed(reporter: Reporter, event: Any, positions: Mapping[str, int]) -> None:
    usage = getattr(event, "usage", None) or {}
    used = used_tokens(usage)
    reporter.write(
        "model_completed",
        model=str(event.model or ""),
        agent=_agent(event),
        **used,
        total_tokens=count_tokens(used["tokens"]),
    )


def _model_failed(reporter: Reporter, event: Any, positions: Mapping[str, int]) -> None:
    reporter.write(
        "model_failed",
        model=str(event.model or ""),
        agent=_agent(event),
        error=shortened(str(event.error), MAX_OUTPUT),
    )


def _text(reporter: Reporter, event: Any, positions: Mapping[str, int]) -> None:
    reporter.stream(str(event.chunk or ""), _agent(event))


def _tool(kind: str) -> Callable[..., None]:
    def write(reporter: Reporter, event: Any, positions: Mapping[str, int]) -> None:
        data: dict[str, Any] = {"tool": str(event.tool_name), "agent": _agent(event)}
        if kind == "tool_started":
            data["arguments"] = shortened(str(event.tool_args), MAX_ARGUMENTS)
        if kind == "tool_failed":
            data["error"] = shortened(str(event.error), MAX_OUTPUT)
        reporter.write(kind, **data)

    return write


_WRITERS: dict[str, Callable[..., None]] = {
    "task_started": _task_started,
    "task_completed": _task_completed,
    "task_failed": _task_failed,
    "llm_guardrail_completed": _attempt_failed,
    "agent_execution_error": _attempt_failed,
    "agent_execution_started": _attempt_started,
    "method_execution_started": _method("method_started"),
    "method_execution_finished": _method("method_completed"),
    "method_execution_failed": _method("method_failed"),
    "llm_call_started": _model_started,
    "llm_call_completed": _model_completed,
    "llm_call_failed": _model_failed,
    "llm_stream_chunk": _text,
    "tool_usage_started": _tool("tool_started"),
    "tool_usage_finished": _tool("tool_completed"),
    "tool_usage_error": _tool("tool_failed"),
}


def drop_warmup_events(tokens: ContextVar[list[int] | None]) -> None:
    """Drop the events of the calls that warm the prompt cache.

    That is, while ``tokens`` has a list in the context. The calls' tokens are appended to that list.

    Patches: crewai.events.event_bus.crewai_event_bus.emit
    Versions: 1.14.2 and newer
    Why: Their events would be recorded in the checkpoints as work of the run's agents.
    Test: tests/runners/runs/test_models_and_cache_warmup.py::
        test_another_model_for_a_role_and_a_cache_warmup
    """
    emit: Callable[..., Any] = crewai_event_bus.emit

    def emit_unless_warming(source: Any, event: Any) -> Any:
        used = tokens.get()
        if used is None:
            return emit(source, event)
        if event.type == "llm_call_completed":
            usage: Mapping[str, Any] = getattr(event, "usage", None) or {}
            used.append(int(usage.get("total_tokens") or 0))
        return None

    crewai_event_bus.emit = emit_unless_warming


# Patches of where flows with ``@persist`` store their states.


LOCK_SECONDS = 10
METHODS = {
    *("save_state", "load_state"),
    *("save_pending_feedback", "load_pending_feedback", "clear_pending_feedback"),
}


def leave_existing_files() -> None:
    """Do not create tables in a file that exists, and do not change how it is written.

    Patches: crewai.flow.persistence.SQLiteFlowPersistence.init_db
    Versions: 1.14.2 and newer
    Why: ``@persist`` opens its file when the project is imported, and turns on its write-ahead log. A fork
        leaves the file as it is.
    Test: tests/runners/stores/test_forks_of_flow_states.py::test_a_fork_leaves_every_byte_of_the_store
    """
    engine: Any = SQLiteFlowPersistence
    init_db = engine.init_db

    def init_new(self: Any) -> None:
        path = Path(self.db_path)
        if not (path.is_file() and path.stat().st_size):
            init_db(self)

    engine.init_db = init_new


def redirect_states(
    own: Any, others: Any, is_own: Callable[[str], bool], saved: Callable[[str], object]
) -> None:
    """Store the states of a run's flow in ``own``, and those of every other flow in ``others``.

    ``is_own`` says whether the id of a flow is that of the run's flow. A state that ``others`` lacks is read
    from the flow's own store. If ``others`` is None, other flows store theirs themselves.
    ``saved`` is called with the id of the run's flow after each of its states.

    Patches: save_state, load_state, save_pending_feedback, load_pending_feedback and clear_pending_feedback
        of crewai.flow.persistence.base.FlowPersistence and its subclasses, and its __init_subclass__
    Versions: 1.14.2 and newer
    Why: Before 1.15, ``@persist`` ignores the persistence that a flow is given, and so do flows in methods. A
        fork would write to the store of the location.
    Test: tests/runners/stores/test_forks_of_flow_states.py::test_a_fork_leaves_every_byte_of_the_store
    """

    def redirected(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(self: Any, flow_uuid: str, *rest: Any, **named: Any) -> Any:
            store = own if is_own(flow_uuid) else others
            if store is not None and store is not self:
                found = getattr(store, name)(flow_uuid, *rest, **named)
                is_elsewhere = name == "load_state" and found is None and self is not own
                return original(self, flow_uuid) if is_elsewhere else found
            found = original(self, flow_uuid, *rest, **named)
            if self is own and name.startswith("save_") and is_own(flow_uuid):
                saved(flow_uuid)
            return found

        return call

    def redirect(cls: Any) -> None:
        for name in METHODS & vars(cls).keys():
            setattr(cls, name, redirected(name, vars(cls)[name]))

    change_classes(FlowPersistence, redirect)


@contextmanager
def in_one_transaction(store: Any) -> Iterator[sqlite3.Connection]:
    """Have a persistence save its states with one connection, which commits unless the block raises.

    Patches: sqlite3 and store_lock of crewai.flow.persistence.sqlite
    Versions: 1.14.2 and newer
    Why: ``SQLiteFlowPersistence`` opens a connection for each state and commits it. It takes
        ``store_lock`` before SQLite locks the file. Taking only the latter could deadlock with a flow.
    Test: tests/runners/stores/test_publishing_flow_states.py::test_a_failure_writes_nothing
    """
    engine: Any = sys.modules[SQLiteFlowPersistence.__module__]
    lock = getattr(engine, "store_lock", None)
    with lock(store._lock_name) if lock else nullcontext():
        connection = sqlite3.connect(store.db_path, timeout=LOCK_SECONDS, factory=_OneTransaction)
        engine.sqlite3 = SimpleNamespace(**{**vars(sqlite3), "connect": lambda *_args, **_named: connection})
        engine.store_lock = nullcontext
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.commit_all()
        finally:
            engine.sqlite3, engine.store_lock = sqlite3, lock
            # Without a commit, nothing was written.
            connection.close_at_last()


class _OneTransaction(sqlite3.Connection):
    """A connection that ignores the commits of the engine, which commits after each state."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        return False

    def commit(self) -> None:
        pass

    def close(self) -> None:
        pass

    def commit_all(self) -> None:
        super().commit()

    def close_at_last(self) -> None:
        super().close()
