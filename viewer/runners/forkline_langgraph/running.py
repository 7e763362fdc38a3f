"""Runs a graph to its end, with a person's answers where it waits for one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from langgraph.types import Command

from forkline_langgraph import entry_points
from forkline_langgraph.checkpoints import SPECIAL
from forkline_langgraph.events import MODES, Attempts, TaskReporter, plain, shown
from forkline_runner.messages import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Questions, Reporter


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
        output=None if isinstance(one.value, str) else _json(one.value),
        choices=choices_of(one.value),
        schema=json.dumps(one.schema, ensure_ascii=False, default=plain) if one.schema else None,
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
    return _json(value)


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


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=plain)


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
