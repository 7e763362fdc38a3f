"""Writes the engine's events to the spool, and waits for its event handlers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from crewai.events.event_bus import crewai_event_bus

from forkline_runner.reporting import shortened, used_tokens

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter

MAX_OUTPUT = 2000
MAX_ARGUMENTS = 1000
MAX_SECONDS = 60
# The tokens of all model calls of this run so far.
TOKENS = {"total": 0}
# When the last attempt of each task failed, and its error, until the next attempt.
FAILED_ATTEMPTS: dict[str, tuple[float, str]] = {}


def report_event(reporter: Reporter, positions: Mapping[str, int], event: Any) -> None:
    """Report one event of the engine. ``positions`` maps task ids to their positions, counted from 1."""
    write = WRITERS.get(event.type)
    if write is None:
        return
    try:
        write(reporter, event, positions)
    except Exception as error:
        reporter.warn("crewai.step_not_shown", kind=type(error).__name__, error=error)


def count_tokens(tokens: int) -> int:
    """Add to the tokens of the run. Return the new total."""
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


WRITERS: dict[str, Callable[..., None]] = {
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


def flush() -> None:
    """Wait until no event handler is running, at most ``MAX_SECONDS``."""
    deadline = time.monotonic() + MAX_SECONDS
    while crewai_event_bus._pending_futures and (left := deadline - time.monotonic()) > 0:
        crewai_event_bus.flush(timeout=max(0.01, left))
