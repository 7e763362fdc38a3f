"""Continues a flow from a state that ``@persist`` stored: forks the state, or answers what the flow asks.

A state does not record which methods have run. So its fork starts the flow over, with CrewAI's
``restore_from_state_id``. A state that waits for feedback continues after the method that asks, with
CrewAI's ``from_pending`` and ``resume``. A fork writes to the scratch store of the job, under a new id of the
flow. On another host, it is published as a new flow of the location there. A resume writes to the store of
the state, as CrewAI itself does.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import os
import secrets
import shutil
import sqlite3
import uuid
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crewai.flow.async_feedback.types import PendingFeedbackContext
from crewai.flow.flow import Flow
from crewai.flow.human_feedback import _serialize_llm_for_context
from crewai.flow.persistence import SQLiteFlowPersistence
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import BaseModel, ValidationError

from forkline_crewai import checkpoints, components, flows, models, restoring, runs
from forkline_crewai.patches import questions, recording, tasks
from forkline_crewai.patches.questions import feedback_config, feedback_for
from forkline_runner.calls import tool_calls_of
from forkline_runner.reporting import Refused, as_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from forkline_crewai.checkpoints import StoredState
    from forkline_runner.findings import Report
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Request


# The method after which each state was stored, and the state.
States = list[tuple[str, dict[str, Any]]]
OF_FLOW = "SELECT method_name, state_json FROM flow_states WHERE flow_uuid = ? ORDER BY rowid"


def publish(request: Request, draft: Path, flow: str, reporter: Reporter) -> int:
    """Write the fork in this scratch store as a new flow. Return the number of written states.

    It is 0 if the flow has all of them already. Raises Refused, and then has written nothing.
    """
    states = [
        (method, {**state, "id": flow} if "id" in state else state) for method, state in _drafted(draft)
    ]
    path = writable_store(request)
    recording.leave_existing_files()
    store: Any = SQLiteFlowPersistence(str(path))
    try:
        with recording.in_one_transaction(store) as connection:
            found = _existing(connection, flow)
            if found is None:
                # A run in this process has redirected all states, as that of a fork on another host.
                save = inspect.unwrap(type(store).save_state)
                for method, state in states:
                    save(store, flow, method, state)
                found, written = _existing(connection, flow), len(states)
            else:
                written = 0
            # As texts, in which NaN is equal to itself.
            if json.dumps(found) != json.dumps(states):
                raise Refused("crewai.flow_exists", flow=flow)
    except (sqlite3.Error, OSError, TypeError, ValueError) as error:
        raise Refused("crewai.store_write_failed", path=path, error=error) from error
    reporter.write("published", thread=flow, into=request["options"]["into"], checkpoints=written)
    return written


def writable_store(request: Request) -> Path:
    """Return the location's store. Raises Refused if nothing can be published to it."""
    path = Path(request["location"]["path"])
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise Refused("crewai.store_not_writable", path=path)
    if not path.stat().st_size:
        # CrewAI would create its tables in it.
        raise Refused("crewai.store_write_failed", path=path, error="the file is empty")
    return path


def _drafted(path: Path) -> States:
    """Return the states in a scratch store. Raises Refused if it was deleted, or the flow waits."""
    if not path.exists():
        raise Refused("crewai.draft_deleted")
    try:
        with checkpoints.opened(path) as connection:
            if connection.execute("SELECT 1 FROM pending_feedback").fetchone():
                raise Refused("crewai.draft_waits")
            rows = connection.execute("SELECT method_name, state_json FROM flow_states ORDER BY rowid")
            return [(method, json.loads(state)) for method, state in rows]
    except (OSError, ValueError, sqlite3.Error) as error:
        raise Refused("crewai.state_unreadable", checkpoint=path.name, path=path, error=error) from error


def _existing(connection: sqlite3.Connection, flow: str) -> States | None:
    """Return the states of a flow in the store; None if no flow has this id. Raises Refused if it waits."""
    tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
    if ("pending_feedback",) in connection.execute(tables).fetchall():
        waits = connection.execute("SELECT 1 FROM pending_feedback WHERE flow_uuid = ?", (flow,))
        if waits.fetchone():
            raise Refused("crewai.flow_exists", flow=flow)
    with closing(connection.execute(OF_FLOW, (flow,))) as rows:
        return [(str(method), json.loads(state)) for method, state in rows] or None


# In the job's folder. It remains after the job has ended, because it holds the fork's states.
STORE = "threads.sqlite"
TRIGGER = "method_execution_finished"


def run(request: Request, state: StoredState, scratch: Path, reporter: Reporter) -> str:
    """Run the flow with the state. Return its result as text. Raises Refused before anything has run."""
    try:
        flow = _made(request, state)
        if is_on_other_host := bool(request["checkpoint"].get("stored")):
            # It is no draft there: what is paid for has to be published.
            writable_store(request)
        found = [*components.of_project_flow(flow, {}), *models.missing_models(flow)]
        components.report_and_refuse(found, request, reporter)
        scratch.mkdir(mode=0o700, exist_ok=True)
        # A crew in a method may write checkpoints, which are not those of this location.
        aside: Any = {"path": str(scratch / "checkpoints"), "store_kind": "json"}
        runs.patch_engine({**request, "location": aside}, reporter, {})
        if calls := tool_calls_of(request, reporter, sanitize_tool_name):
            tasks.decide_about_calls(calls)
        questions.ask_instead_of_pausing_in_methods(flow, reporter.questions)
        flow.stream, flow.checkpoint = False, None
        start = _start_over if state.question is None else _answer
        result = flows.as_text(start(flow, request, state, scratch, reporter))
        if is_on_other_host:
            _publish(request, scratch.parent / STORE, reporter)
        return result
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _publish(request: Request, draft: Path, reporter: Reporter) -> None:
    try:
        publish(request, draft, request["job"], reporter)
    except Refused as refused:
        # The run has been paid for: it succeeds, and its states stay in the job's folder.
        reporter.warn("crewai.not_published", why=[refused.message])


def add_components(report: Report, request: Request, state: StoredState) -> None:
    """Add the components of the flow to a preflight report. Raises Refused if the state does not fit."""
    if not request["entry_point"]:
        raise Refused("crewai.flow_needs_entry_point")
    flow = _made(request, state)
    report["components"] = [*components.of_project_flow(flow, {}), *models.missing_models(flow)]


def _made(request: Request, state: StoredState) -> Any:
    """Return the project's flow, not started, which the state fits. Raises Refused."""
    if restoring.chosen_settings(request):
        raise Refused("crewai.no_state_choice")
    if request["kind"] == "resume" and state.question is None:
        raise Refused("crewai.feedback_not_pending")
    if state.question is None and "restore_from_state_id" not in inspect.signature(Flow.kickoff).parameters:
        version = importlib.metadata.version("crewai")
        raise Refused("crewai.state_fork_needs_newer_version", version=version)
    recording.leave_existing_files()
    flow = flows.made_by(request["entry_point"])
    if state.question is not None:
        _refuse_other_class(flow, str(state.question.get("flow_class") or ""))
    try:
        if isinstance(flow._state, BaseModel):
            type(flow._state).model_validate(state.values)
    except ValidationError as error:
        raise Refused("crewai.flow_state_does_not_fit", error=restoring.reasons_of(error)) from error
    return flow


def _refuse_other_class(flow: Any, asked_by: str) -> None:
    """Raise Refused unless this flow's class has asked. Nothing that the store names is imported."""
    module, _dot, name = asked_by.rpartition(".")
    own = type(flow).__module__
    is_same = module in ("__main__", own) or module.endswith(f".{own}") or own.endswith(f".{module}")
    if name != type(flow).__name__ or not is_same:
        found = f"{own}.{type(flow).__name__}"
        raise Refused("crewai.feedback_of_other_flow", asked_by=asked_by, found=found)


def _start_over(flow: Any, request: Request, state: StoredState, scratch: Path, reporter: Reporter) -> Any:
    own, others = _created(scratch.parent / STORE), _aside(scratch)
    others.save_state(state.flow, state.method, state.values)
    # The engine gives the flow its new id when it has loaded the state.
    _redirect(flow, own, others, lambda one: one == flow.flow_id, request, reporter)
    reporter.write("steps", steps=flows.steps_of(flow, request))
    return flow.kickoff(restore_from_state_id=state.flow)


def _answer(flow: Any, request: Request, state: StoredState, scratch: Path, reporter: Reporter) -> Any:
    context, others = _context(flow, state), None
    if request["kind"] == "resume" and state.store == Path(request["location"]["path"]):
        own = _store_of(flow, state.store)
    else:
        own, others = _created(scratch.parent / STORE), _aside(scratch)
        context = replace(context, flow_id=str(uuid.uuid4()))
        own.save_pending_feedback(context.flow_id, context, {**state.values, "id": context.flow_id})
    _redirect(flow, own, others, lambda one: one == context.flow_id, request, reporter)

    def with_store(**_: Any) -> Any:
        return flow

    # The flow may be made by a function or a file, so CrewAI's own method gets it instead of a class.
    from_pending: Callable[..., Any] = Flow.from_pending.__func__
    flow = from_pending(with_store, context.flow_id, own)
    flow._pending_feedback_context = context
    if request["state"]:
        # With another id, the states would be those of another flow.
        flow._initialize_state({**request["state"], "id": context.flow_id})
    reporter.write("steps", steps=flows.steps_of(flow, request))
    answers = list((request.get("answers") or {}).values())
    feedback = as_text(answers[0]) if answers else feedback_for(reporter.questions, context, flow)
    if request["kind"] == "resume" and checkpoints.read_state(request).question != state.question:
        # Another program has answered while a person was asked. The flow may wait for something else.
        raise Refused("crewai.feedback_not_pending")
    return flow.resume(feedback)


def _context(flow: Any, state: StoredState) -> PendingFeedbackContext:
    """Return what the flow asked. Its model, outcomes and metadata are those of the project. Raises Refused.

    A store could name a model at another address, which would get the project's key.
    """
    try:
        asked = PendingFeedbackContext.from_dict({**(state.question or {}), "flow_id": state.flow})
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(
            "crewai.state_unreadable", checkpoint=state.method, path=state.store, error=error
        ) from error
    config = feedback_config(flow, str(asked.method_name))
    if config is None:
        found = f"{type(flow).__name__}.{asked.method_name}"
        raise Refused("crewai.feedback_of_other_flow", asked_by=asked.flow_class, found=found)
    llm = config.llm
    if not (llm is None or isinstance(llm, str | dict)):
        llm = _serialize_llm_for_context(llm)
    return replace(
        asked,
        llm=llm,
        emit=list(config.emit) if config.emit else None,
        default_outcome=config.default_outcome,
        metadata=config.metadata or {},
    )


def _store_of(flow: Any, path: Path) -> Any:
    """Return the project's own persistence if it writes to this file, else CrewAI's."""
    own = getattr(flow.persistence, "db_path", None)
    with suppress(OSError, TypeError, ValueError):
        if own is not None and Path(own).resolve() == path:
            return flow.persistence
    return SQLiteFlowPersistence(str(path))


def _redirect(
    flow: Any, own: Any, others: Any, is_own: Callable[[str], bool], request: Request, reporter: Reporter
) -> None:
    """Store the states of the flow in ``own``, and report each."""
    written = _Written(Path(own.db_path), request, reporter)
    recording.redirect_states(own, others, is_own, written.report)
    flow.persistence = own
    if hasattr(flow, "_instance_persistence"):
        flow._instance_persistence = True


def _aside(scratch: Path) -> Any:
    return SQLiteFlowPersistence(str(scratch / "flow_states.db"))


def _created(path: Path) -> Any:
    """Return a new store that only its owner can read, whose rowids are those of no other store."""
    path.touch(mode=0o600)
    store = SQLiteFlowPersistence(str(path))
    with closing(sqlite3.connect(path)) as connection, connection:
        first = secrets.randbelow(2**40) + 2**40
        connection.execute("INSERT INTO sqlite_sequence VALUES ('flow_states', ?)", (first,))
    return store


class _Written:
    """Reports each state of the flow when it was stored."""

    def __init__(self, path: Path, request: Request, reporter: Reporter) -> None:
        self.path, self.request, self.reporter = path, request, reporter
        self.parent, self.rowid = request["checkpoint"]["id"], 0

    def report(self, flow: str) -> None:
        query = "SELECT rowid, timestamp FROM flow_states WHERE flow_uuid = ? ORDER BY rowid DESC LIMIT 1"
        with closing(sqlite3.connect(self.path)) as connection:
            rowid, written = connection.execute(query, (flow,)).fetchone()
        if rowid == self.rowid:
            return
        self.rowid = rowid
        identifier = f"{datetime.fromisoformat(written):%Y%m%dT%H%M%S}_{rowid:08x}"
        self.reporter.write(
            "checkpoint",
            id=identifier,
            parent=self.parent,
            path=f"{self.path}#{rowid}",
            branch=self.request["branch"],
            trigger=TRIGGER,
        )
        self.parent = identifier
