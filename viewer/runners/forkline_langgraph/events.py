"""Writes what a graph streams, and the calls of its models and tools, to the spool."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from forkline_runner.reporting import shortened, used_tokens

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter


# Every version has "debug", which reports tasks, their results and checkpoints. "messages" makes models
# stream their answers even where a node waits for the whole answer; the callbacks report the text.
MODES = ["debug", "custom", "messages"]
MAX_OUTPUT = 2000


class TaskReporter:
    """Reports the tasks of a graph and of the graphs inside it.

    A unit is a node. Its name follows the names of the nodes whose subgraphs it is in. If a node runs several
    times in one step, as with ``Send``, its units are numbered from the second on.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        # Tasks that finished earlier. The engine streams them as well, but uses their stored writes.
        self._finished: set[str] = set()
        # The units by the ids of their tasks.
        self.units: dict[str, str] = {}
        self._in_step: dict[tuple[str, int], int] = {}

    def report(self, namespace: Sequence[str], mode: str, part: Any) -> None:
        """Report one streamed part."""
        if mode == "custom":
            self._reporter.write("custom", value=shown(part))
        if mode != "debug":
            return
        payload, kind = part.get("payload") or {}, part.get("type")
        if kind == "checkpoint":
            self._finished |= {str(task["id"]) for task in payload.get("tasks") or [] if "result" in task}
        elif kind == "task" and payload["id"] not in self._finished:
            unit = self._unit_of(namespace, payload, int(part.get("step") or 0))
            self._reporter.write(
                "node_started", node=unit, id=payload["id"], step=part.get("step"), description=unit
            )
        elif kind == "task_result":
            self._report_result(payload)

    def _report_result(self, payload: Mapping[str, Any]) -> None:
        unit, task = self.units.get(payload["id"], str(payload["name"])), payload["id"]
        if payload.get("error"):
            self._reporter.write("node_failed", node=unit, id=task, error=shown(payload["error"]))
        elif payload.get("interrupts"):
            self._reporter.write("node_interrupted", node=unit, id=task)
        else:
            result = payload.get("result")
            # After an interrupt in the same step, the task is streamed again without running again.
            self._finished.add(str(task))
            self._reporter.write("node_completed", node=unit, id=task, output=shown(result))

    def _unit_of(self, namespace: Sequence[str], payload: Mapping[str, Any], step: int) -> str:
        name = "/".join([*(part.partition(":")[0] for part in namespace), str(payload["name"])])
        task = str(payload["id"])
        if task not in self.units:
            number = self._in_step[name, step] = self._in_step.get((name, step), 0) + 1
            self.units[task] = name if number == 1 else f"{name} {number}"
        return self.units[task]


def shown(value: Any) -> str:
    """Return a value as text for an event, shortened."""
    if isinstance(value, BaseException):
        return shortened(f"{type(value).__name__}: {value}", MAX_OUTPUT)
    if isinstance(value, str):
        return shortened(value, MAX_OUTPUT)
    return shortened(json.dumps(value, default=plain, ensure_ascii=False), MAX_OUTPUT)


def plain(value: Any) -> Any:
    """Return a JSON value in place of a value that JSON cannot represent."""
    for name in ("model_dump", "_asdict"):
        if hasattr(value, name):
            return getattr(value, name)()
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


MAX_ARGUMENTS = 1000
MAX_ERROR = 2000
# Exceptions with which the engine controls a run, such as waiting for a person. They are not failures.
WAITS = {"GraphInterrupt", "NodeInterrupt", "GraphBubbleUp", "ParentCommand"}
# What the tag of a task's own run begins with; runs inside it do not have the tag.
TASK_TAG = "graph:step:"


class Attempts(BaseCallbackHandler):  # type: ignore[misc]
    """Reports each attempt of a node after a failed one, as its retry policy makes it.

    ``units`` are the names of the units by the ids of their tasks.
    """

    run_inline = True
    raise_error = False

    def __init__(self, reporter: Reporter, units: Mapping[str, str]) -> None:
        self._reporter, self._units = reporter, units
        # The task of each attempt under way, and the failures of each task.
        self._tasks: dict[UUID, str] = {}
        self._failures: dict[str, tuple[float, str]] = {}

    def on_chain_start(
        self,
        serialized: Any,
        inputs: Any,
        *,
        run_id: UUID,
        tags: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> None:
        if not any(tag.startswith(TASK_TAG) for tag in tags or ()):
            return
        task = str((metadata or {}).get("langgraph_checkpoint_ns") or "").rpartition(":")[2]
        self._tasks[run_id] = task
        if (failure := self._failures.pop(task, None)) is not None and task in self._units:
            failed_at, error = failure
            waited = round(time.monotonic() - failed_at, 6)
            self._reporter.write("node_retried", node=self._units[task], id=task, error=error, waited=waited)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **given: Any) -> None:
        self._tasks.pop(run_id, None)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **given: Any) -> None:
        task = self._tasks.pop(run_id, "")
        if task and not WAITS & {one.__name__ for one in type(error).__mro__}:
            text = shortened(f"{type(error).__name__}: {error}", MAX_ERROR)
            self._failures[task] = time.monotonic(), text


class Calls(BaseCallbackHandler):  # type: ignore[misc]
    """Reports each call of a model or a tool, with the node that makes it.

    If ``is_recorded``, models are not called: their answers are reported as they are read from the record.
    """

    # Called in the thread of the call, so that a limit can interrupt it.
    run_inline = True
    raise_error = False

    def __init__(self, reporter: Reporter, *, is_recorded: bool = False) -> None:
        self._reporter, self._is_recorded = reporter, is_recorded
        self._tokens = 0
        # The model and node of each call under way, and the name of each tool.
        self._models: dict[UUID, tuple[str, str]] = {}
        self._tools: dict[UUID, tuple[str, str]] = {}

    @property
    def ignore_chat_model(self) -> bool:
        """Whether starts of chat models are not reported."""
        return self._is_recorded

    @property
    def ignore_llm(self) -> bool:
        """Whether models are not reported."""
        return self._is_recorded

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **given: Any) -> None:
        self._model_started(serialized, run_id, given)

    def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: UUID, **given: Any) -> None:
        self._model_started(serialized, run_id, given)

    def _model_started(self, serialized: Any, run_id: UUID, given: dict[str, Any]) -> None:
        metadata = given.get("metadata") or {}
        name = metadata.get("ls_model_name") or given.get("name") or (serialized or {}).get("name") or ""
        self._models[run_id] = str(name), _node(metadata)
        self._reporter.write("model_started", model=str(name), agent=_node(metadata))

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **given: Any) -> None:
        if isinstance(token, str) and token:
            self._reporter.stream(token, self._models.get(run_id, ("", ""))[1])

    def on_llm_end(self, response: Any, *, run_id: UUID, **given: Any) -> None:
        model, agent = self._models.pop(run_id, ("", ""))
        used = used_tokens(_usage_in(response))
        self._tokens += used["tokens"]
        self._reporter.write("model_completed", model=model, agent=agent, **used, total_tokens=self._tokens)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **given: Any) -> None:
        model, agent = self._models.pop(run_id, ("", ""))
        self._reporter.write("model_failed", model=model, agent=agent, error=shortened(str(error), MAX_ERROR))

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **given: Any) -> None:
        name = str((serialized or {}).get("name") or given.get("name") or "")
        self._tools[run_id] = name, _node(given.get("metadata") or {})
        arguments = shortened(str(input_str), MAX_ARGUMENTS)
        self._reporter.write("tool_started", tool=name, agent=self._tools[run_id][1], arguments=arguments)

    def on_tool_end(self, output: Any, *, run_id: UUID, **given: Any) -> None:
        name, agent = self._tools.pop(run_id, ("", ""))
        self._reporter.write("tool_completed", tool=name, agent=agent)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **given: Any) -> None:
        name, agent = self._tools.pop(run_id, ("", ""))
        if type(error).__name__ not in WAITS:
            text = shortened(str(error), MAX_ERROR)
            self._reporter.write("tool_failed", tool=name, agent=agent, error=text)


def _node(metadata: Any) -> str:
    return str(metadata.get("langgraph_node") or "")


def _usage_in(response: Any) -> Mapping[str, Any]:
    """Return the usage of one call from its message, else from the provider's output."""
    for generations in getattr(response, "generations", None) or []:
        for generation in generations:
            usage = getattr(getattr(generation, "message", None), "usage_metadata", None) or {}
            if usage.get("total_tokens"):
                return dict(usage)
    output = getattr(response, "llm_output", None) or {}
    return dict(output.get("token_usage") or {})
