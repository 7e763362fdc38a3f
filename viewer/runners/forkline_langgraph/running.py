"""Runs a graph to its end, reports what it streams and calls, and decides about the calls of its tools."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from forkline_langgraph import entry_points
from forkline_langgraph.checkpoints import SPECIAL
from forkline_runner.calls import Decision, Given, ToolCalls, ToolMethods, argument, decided, with_argument
from forkline_runner.reporting import Refused, as_json, described, shortened, used_tokens

if TYPE_CHECKING:
    from forkline_runner.reporting import Questions, Reporter

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
        return shortened(described(value), MAX_OUTPUT)
    return shortened(value if isinstance(value, str) else as_json(value, plain), MAX_OUTPUT)


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
            text = shortened(described(error), MAX_ERROR)
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


# Runs a graph to its end, with a person's answers where it waits for one.


# The field for an input that is not an object (viewer/engines/langgraph/project_source.py).
INPUT = "input"


def input_of(graph: Any, values: Mapping[str, Any]) -> Any:
    """Return the values of the form, or the single value for a function that expects no object."""
    if set(values) == {INPUT} and is_functional(graph):
        return values[INPUT]
    return dict(values)


def is_functional(graph: Any) -> bool:
    """Return whether this is a function of the functional API, which has no builder."""
    return not hasattr(graph, "builder")


# The keys of an interrupt's value that usually hold the question.
PROMPTS = ("question", "prompt", "message", "instruction", "description", "text")
CHOICES = ("options", "choices", "actions")


@dataclass(frozen=True)
class Waiting:
    """An interrupt that nobody has answered. ``id`` is empty in versions that give it none.

    ``schema`` is the JSON schema of the answer, or None.
    """

    id: str
    node: str
    value: Any
    schema: Mapping[str, Any] | None = None


def waiting_in(state: Any, finished: Collection[str]) -> list[Waiting]:
    """Return the interrupts of a graph's state, in order and each once, including those of subgraphs.

    The state repeats those that a finished task had; ``finished`` are the ids of such tasks.
    """
    found: dict[str, Waiting] = {}
    for task in state.tasks:
        if task.id in finished:
            continue
        for one in task.interrupts:
            identifier = str(getattr(one, "id", "") or getattr(one, "interrupt_id", "") or "")
            schema = getattr(one, "response_schema", None)
            asked = Waiting(
                identifier, str(task.name), one.value, schema if isinstance(schema, dict) else None
            )
            found.setdefault(identifier or str(len(found)), asked)
    return list(found.values())


def finished_tasks(graph: Any, config: Any) -> set[str]:
    """Return the ids of the tasks after a thread's last checkpoint that have finished."""
    saved = graph.checkpointer.get_tuple(config)
    writes = (saved.pending_writes if saved else None) or ()
    return {str(task) for task, channel, _value in writes if channel not in SPECIAL}


def next_nodes(graph: Any, config: Any) -> list[str]:
    """Return the nodes that run next on a thread; a node that was sent several times occurs as often.

    Before 1.2, ``next`` of the graph's own state lacks a node that waits again after an earlier answer.
    """
    finished = finished_tasks(graph, config)
    return [str(task.name) for task in graph.get_state(config).tasks if task.id not in finished]


def is_refused_answer(error: Exception) -> bool:
    """Return whether a node has refused an answer that does not fit the class that it asked for."""
    from langgraph import errors

    # Since 1.2.
    known = getattr(errors, "is_invalid_resume", None)
    return bool(known and known(error))


def ask(waiting: list[Waiting], questions: Questions, refused: str = "") -> Any:
    """Ask about each interrupt in turn. Return the value to resume the graph with. Raises Refused.

    ``refused`` says why the graph has refused the last answer; empty if it has not.
    """
    if len(waiting) == 1:
        return _asked(waiting[0], questions, refused)
    if not all(one.id for one in waiting):
        raise Refused("langgraph.several_interrupts")
    return {one.id: _asked(one, questions, refused) for one in waiting}


def resumption(answers: Mapping[str, Any], waiting: list[Waiting]) -> Any:
    """Return the value to resume the graph with. ``answers`` are by interrupt id; a single id may be empty.

    An interrupt without an answer asks again. Raises Refused if an answer fits no waiting interrupt.
    """
    if not waiting:
        raise Refused("langgraph.nothing_waits")
    if len(waiting) == 1 and set(answers) <= {"", waiting[0].id}:
        return _decided(next(iter(answers.values())), waiting[0].value)
    values = {one.id: one.value for one in waiting if one.id}
    if not set(answers) <= set(values):
        raise Refused("langgraph.answers_do_not_fit", ids=", ".join(sorted(values)))
    return {name: _decided(answer, values[name]) for name, answer in answers.items()}


def _decided(answer: Any, value: Any) -> Any:
    """Return an answer as the interrupt expects it: a review of tool calls needs a decision for each."""
    return answer_of(answer, value) if isinstance(answer, str) and _reviews(value) else answer


def _asked(one: Waiting, questions: Questions, refused: str) -> Any:
    prompt = prompt_of(one.value)
    text = questions.ask(
        "interrupt",
        f"{prompt}\n{refused}" if refused else prompt,
        node=one.node,
        interrupt=one.id,
        output=None if isinstance(one.value, str) else as_json(one.value, plain, indent=2),
        choices=choices_of(one.value),
        schema=as_json(one.schema, plain) if one.schema else None,
    )
    return answer_of(text, one.value)


def prompt_of(value: Any) -> str:
    """Return the question: the text in the interrupt's value, or the whole value."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        for name in PROMPTS:
            if isinstance(value.get(name), str) and value[name]:
                return str(value[name])
    return as_json(value, plain, indent=2)


def choices_of(value: Any) -> list[str]:
    """Return the answers that the interrupt's value suggests; none if it suggests none."""
    if not isinstance(value, Mapping):
        return []
    if _reviews(value):
        allowed = [set(one.get("allowed_decisions") or []) for one in value["review_configs"]]
        return [one for one in ("approve", "reject") if all(one in each for each in allowed)]
    for name in CHOICES:
        found = value.get(name)
        if isinstance(found, list) and found and all(isinstance(one, str) for one in found):
            return list(found)
    return []


def answer_of(text: str, value: Any) -> Any:
    """Return the value of an answer: decoded if the text is JSON, else the text."""
    if _reviews(value) and text in choices_of(value):
        # What the engine's own middleware expects of a person who reviews tool calls.
        return {"decisions": [{"type": text} for _ in value["action_requests"]]}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _reviews(value: Any) -> bool:
    """Return whether this is the engine's own request to review tool calls."""
    return isinstance(value, Mapping) and all(
        isinstance(value.get(name), list) for name in ("action_requests", "review_configs")
    )


class Running:
    """One graph on one thread."""

    def __init__(
        self,
        graph: Any,
        config: dict[str, Any],
        reporter: Reporter,
        stream_options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._reporter = reporter
        self._progress = TaskReporter(reporter)
        callbacks = [*config.get("callbacks", ()), Attempts(reporter, self._progress.units)]
        self.graph, self.config = graph, {**config, "callbacks": callbacks}
        self._stream_options = stream_options
        self.is_async = entry_points.is_async(graph)
        # What the config of the first step has besides: the checkpoint that it replays, if any.
        self._replayed: dict[str, str] = {}

    def state(self) -> Any:
        """Return the state of the thread's last checkpoint, as the graph reads it."""
        return self.graph.get_state(self.config)

    def waiting(self) -> list[Waiting]:
        """Return the interrupts that wait for an answer at the thread's last checkpoint."""
        return waiting_in(self.state(), finished_tasks(self.graph, self.config))

    def next_nodes(self) -> list[str]:
        """Return the nodes that run next, as ``next_nodes`` does."""
        return next_nodes(self.graph, self.config)

    def update(self, values: Any, as_node: str | None, config: dict[str, Any] | None = None) -> None:
        """Write a checkpoint with changed values, as if ``as_node`` had returned them.

        ``config`` is that of a subgraph whose state changes; without it, the graph's own does.
        """
        at = config or self.config
        if self.is_async:
            entry_points.run_in_loop(self.graph.aupdate_state(at, values, as_node=as_node))
        else:
            self.graph.update_state(at, values, as_node=as_node)

    def to_end(self, given: Any, *, asks_first: bool = True, replays: bool = False) -> str:
        """Run until nothing is left to do, or to a breakpoint. Return the result as text.

        ``given`` is the input, a ``Command`` with answers, or None to continue. ``asks_first`` is false if an
        edit has made the stored questions outdated. ``replays`` begins at the last checkpoint as a replay, so
        that subgraphs load what they remembered before it.
        """
        if replays:
            last = self.state().config["configurable"]["checkpoint_id"]
            self._replayed = {"checkpoint_id": last, "checkpoint_ns": ""}
        if given is None and asks_first and (waiting := self.waiting()):
            # Ask first: running the waiting nodes up to their questions would repeat what they do before.
            given = self._answered(waiting)
        while True:
            refused: Exception | None = None
            try:
                self._stream(given)
            except Exception as error:
                if not is_refused_answer(error):
                    raise
                # Nothing is stored of an answer that its node refuses, so its question can be asked again.
                refused = error
            waiting = self.waiting()
            if refused and not waiting:
                raise refused
            if not waiting:
                break
            given = self._answered(waiting, str(refused or ""))
        if following := self.next_nodes():
            self._reporter.write("breakpoint", nodes=units_of(following))
        return result_of(self.state().values)

    def report_steps(self, nodes: Sequence[str]) -> None:
        """Report which nodes run next."""
        steps = [
            {"unit": unit, "position": position, "title": unit, "action": "runs"}
            for position, unit in enumerate(units_of(nodes), 1)
        ]
        self._reporter.write("steps", steps=steps)

    def _answered(self, waiting: list[Waiting], refused: str = "") -> Command[Any]:
        return Command(resume=ask(waiting, self._reporter.questions, refused))

    def _stream(self, given: Any) -> None:
        options = {"stream_mode": MODES, "subgraphs": True, **self._stream_options}
        replayed, self._replayed = self._replayed if given is None else {}, {}
        config = {**self.config, "configurable": {**self.config["configurable"], **replayed}}
        if self.is_async:
            entry_points.run_in_loop(self._consume(given, config, options))
            return
        for part in self.graph.stream(given, config, **options):
            self._progress.report(*part)

    async def _consume(self, given: Any, config: dict[str, Any], options: dict[str, Any]) -> None:
        async for part in self.graph.astream(given, config, **options):
            self._progress.report(*part)


def units_of(nodes: Sequence[str]) -> list[str]:
    """Return the units of nodes that run together: repeated nodes are numbered from the second on."""
    counts: dict[str, int] = {}
    units = []
    for node in nodes:
        counts[node] = counts.get(node, 0) + 1
        units.append(node if counts[node] == 1 else f"{node} {counts[node]}")
    return units


def result_of(values: Any) -> str:
    """Return the result of a run: the last message of a conversation, else the values as JSON."""
    messages = values.get("messages") if isinstance(values, dict) else None
    text = getattr(messages[-1], "content", None) if isinstance(messages, list) and messages else None
    return text if isinstance(text, str) and text else shown(values)


# Decides about the calls of LangChain's tools, before they reach the tools' own code.


# The name of the first parameter of a tool's methods.
TOOL_INPUT = "tool_input"


def decide_about_calls(calls: ToolCalls) -> None:
    """Have each call of a tool decided. ``invoke`` and ``ainvoke`` call these methods too."""
    for name in ("run", "arun"):
        setattr(BaseTool, name, decided(getattr(BaseTool, name), calls, METHODS))


def _arguments(tool: Any, given: Given) -> Any:
    """Return the arguments that a model writes, without those that the graph adds."""
    tool_input = argument(given, TOOL_INPUT)
    if not isinstance(tool_input, Mapping):
        return tool_input
    try:
        names = set(tool.tool_call_schema.model_fields)
    except Exception:
        # The schema is a dictionary, or the tool's own code failed to make it.
        return dict(tool_input)
    return {name: value for name, value in tool_input.items() if name in names}


def _edited(given: Given, arguments: Any, decision: Decision) -> Given:
    """Return what a call is given with the arguments that a person has edited."""
    edited, tool_input = decision.arguments, argument(given, TOOL_INPUT)
    if isinstance(tool_input, Mapping) and isinstance(arguments, Mapping):
        added = {name: value for name, value in tool_input.items() if name not in arguments}
        edited = {**added, **edited}
    return with_argument(given, TOOL_INPUT, edited)


def _is_read_only(tool: Any) -> bool:
    """Return whether a tool of an MCP server is declared to be read-only."""
    return bool((getattr(tool, "metadata", None) or {}).get("readOnlyHint"))


def _result(tool: Any, given: Given, decision: Decision) -> Any:
    """Return what the tool would return: a message if a model has requested the call."""
    if not (call_id := given[1].get("tool_call_id")):
        return decision.answer
    status = "error" if decision.is_refused else "success"
    return ToolMessage(decision.answer or "", tool_call_id=call_id, name=tool.name, status=status)


METHODS = ToolMethods(_arguments, _edited, _is_read_only, _result)
