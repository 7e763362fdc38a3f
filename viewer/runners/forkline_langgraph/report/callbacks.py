"""Writes the calls of models and tools, and repeated attempts of nodes, to the spool."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from forkline_runner.reporting import shortened, used_tokens

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter

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
    """Reports each call of a model or a tool, with the node that makes it."""

    # Called in the thread of the call, so that a limit can interrupt it.
    run_inline = True
    raise_error = False

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._tokens = 0
        # The model and node of each call under way, and the name of each tool.
        self._models: dict[UUID, tuple[str, str]] = {}
        self._tools: dict[UUID, tuple[str, str]] = {}

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
