"""What pages, comparisons, the search and the terminal show of a CrewAI checkpoint."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from viewer.engines.contents import (
    EVENTS_A_PAGE,
    GraphEdge,
    Part,
    SearchText,
    Section,
    Tab,
    TextKind,
    UnitGraph,
    part_id,
    parts_of,
    settings_of,
)
from viewer.engines.crewai.contents import Contents, Method, Task, changes_since
from viewer.engines.crewai.flow_plan import FlowMethod
from viewer.engines.crewai.input_names import ConditionalTasks
from viewer.engines.crewai.planning import agent_prompt, following_of
from viewer.engines.crewai.recorded_events import Event
from viewer.messages.catalog import gettext_noop as _

# What the run had just produced when a checkpoint was written.


# The events that end with something to read. A crew's and a flow's own end repeat their last unit's output.
PRODUCING = frozenset(
    {"task_completed", "method_execution_finished", "llm_call_completed", "tool_usage_finished"}
    | {"agent_execution_completed", "lite_agent_execution_completed"}
)


@dataclass(frozen=True, slots=True)
class Output:
    """The newest output. ``value`` is a text or a JSON value.

    ``unit`` is the id of the task or the name of the method that returned it, and ``event`` the kind of the
    event that holds it; one of them is empty. ``state`` is what a method that returned nothing left behind.
    """

    title: str
    value: Any
    agent: str = ""
    unit: str = ""
    event: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_text(self) -> bool:
        """Whether it is a text, which may be Markdown."""
        return isinstance(self.value, str)


def newest_output(contents: Contents) -> Output | None:
    """Return what was produced last; None if nothing has been produced yet."""
    return next(_outputs(contents), None)


def _outputs(contents: Contents) -> Iterator[Output]:
    """What was produced, newest first. Without events, units are taken in their order."""
    tasks = {task.id: task for task in contents.tasks if task.id}
    methods = {method.name: method for method in contents.methods}
    for event in reversed(contents.events):
        if event.kind not in PRODUCING or event.is_internal:
            continue
        task, method = tasks.get(event.task_id), methods.get(event.subject)
        if event.kind == "task_completed" and task is not None:
            yield from _of_task(task)
        elif event.kind == "method_execution_finished" and method is not None:
            yield from _of_method(method, contents)
        elif event.text:
            title = event.subject or event.agent or contents.name
            yield Output(title, event.text, event.agent if event.agent != title else "", event=event.kind)
    for task in reversed(contents.tasks):
        yield from _of_task(task)
    for method in reversed(contents.methods):
        yield from _of_method(method, contents)


def _of_task(task: Task) -> Iterator[Output]:
    value = task.output if task.output_json is None else task.output_json
    if task.done and value not in (None, ""):
        yield Output(f"{task.position}. {task.title}", value, task.agent, unit=task.id)


def _of_method(method: Method, contents: Contents) -> Iterator[Output]:
    """What a method returned, else the state, since methods often write there and return nothing."""
    if not method.done:
        return
    if method.output not in (None, ""):
        yield Output(method.name, method.output, unit=method.name)
        return
    state = {name: value for name, value in (contents.flow_state or {}).items() if name != "id"}
    if state:
        yield Output(method.name, None, unit=method.name, state=state)


# The tabs of the checkpoint page that CrewAI adds.


TABS = (
    Tab("output", _("Output"), "engines/crewai/_output.html", is_shareable=True),
    Tab("tasks", _("Tasks"), "engines/crewai/_tasks.html", compares_with="origin", is_shareable=True),
    Tab("inputs", _("Inputs"), "engines/crewai/_inputs.html", is_shareable=True),
    Tab("state", _("State"), "engines/crewai/_state.html", is_shareable=True),
)
ORDER = ("output", "tasks", "inputs", "state", "overview", "events", "raw")


def is_tab_empty(tab: str, contents: Contents) -> bool:
    """Return whether a tab has nothing to show."""
    match tab:
        case "output":
            return newest_output(contents) is None
        case "tasks":
            return not contents.tasks and not contents.methods
        case "inputs":
            return not contents.inputs
        case "state":
            return not contents.flow_state
        case "events":
            return not contents.events
    return False


def tab_context(tab: str, contents: Contents, before: Contents | None) -> dict[str, Any]:
    """Return a tab's context in addition to ``contents``: tasks with their changes since ``before``.

    Each output and each value of the state comes with the id of its part.
    """
    if tab == "output":
        return _newest(contents)
    if tab == "state":
        return {"state_values": _state_values(contents.flow_state or {})}
    if tab != "tasks":
        return {}
    changes = changes_since(before, contents) if before else {}
    return {
        "tasks": [
            (task, changes.get(task.id), part_id(Section.OUTPUTS, key)) for task, key in keyed_tasks(contents)
        ],
        "methods": [(method, part_id(Section.OUTPUTS, method.name)) for method in contents.methods],
    }


def _newest(contents: Contents) -> dict[str, Any]:
    """The newest output, and the id of its part if a unit returned it."""
    output = newest_output(contents)
    keys = {task.id: key for task, key in keyed_tasks(contents)} | {
        method.name: method.name for method in contents.methods
    }
    key = keys.get(output.unit, "") if output and not output.state else ""
    return {
        "output": output,
        "part": part_id(Section.OUTPUTS, key) if key else "",
        "state_values": _state_values(output.state) if output else [],
    }


def _state_values(state: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    """Each value of a flow's state with its name and the id of its part."""
    return [(name, value, part_id(Section.STATE, name)) for name, value in state.items()]


# The contents of a CrewAI checkpoint for the terminal.


MAX_LINE = 90


def info(contents: Contents, first: Contents | None = None) -> dict[str, Any]:
    """The contents as plain values. ``first`` is what the run's first checkpoint holds."""
    return {
        "inputs": contents.inputs,
        "prompt": _prompt(contents, first),
        "answer": _answer(contents),
        "tasks": [
            {
                "id": task.id,
                "description": task.description,
                "agent": task.agent,
                "done": task.done,
                "skipped": task.is_skipped,
                "output": task.output,
            }
            for task in contents.tasks
        ],
        "methods": [
            {"name": method.name, "done": method.done, "count": method.count, "output": method.output}
            for method in contents.methods
        ],
        "flow_state": contents.flow_state,
        "agents": [
            {
                "id": agent.id,
                "role": agent.role,
                "goal": agent.goal,
                "backstory": agent.backstory,
                "model": agent.model,
                "tools": list(agent.tools),
            }
            for agent in contents.agents
        ],
        "unknown": list(contents.unknown),
    }


def info_lines(contents: Contents, first: Contents | None = None) -> Iterator[str]:
    """The contents as lines. ``first`` is what the run's first checkpoint holds."""
    yield from (f"{name} = {value!r}" for name, value in contents.inputs.items())
    if (prompt := _prompt(contents, first)) is not None:
        yield from (f"? {_short(text)}" for text in _texts(prompt))
    if (answer := _answer(contents)) is not None:
        yield f"✓ {_short(answer)}"
    for task in contents.tasks:
        sign = "✓" if task.done else "-" if task.is_skipped else "·"
        skipped = "  (skipped)" if task.is_skipped else ""
        yield f"{sign} {task.position}. {_short(task.description)}  [{task.agent}]{skipped}"
        if task.output:
            yield f"     {_short(task.output)}"
    for method in contents.methods:
        times = f"  ({method.count} times)" if method.count > 1 else ""
        yield f"{'✓' if method.done else '·'} {method.name}{times}"
        if method.output is not None:
            yield f"     {_short(_text(method.output))}"
    if contents.flow_state is not None:
        yield from (f"{name}: {_short(str(value))}" for name, value in contents.flow_state.items())
    yield from (f"{agent.role}: {_short(agent.goal)} ({agent.model})" for agent in contents.agents)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"


def _prompt(contents: Contents, first: Contents | None) -> Any:
    """The last prompt of a lone agent; None for other kinds, and if no checkpoint of the run records it.

    Newer versions of the engine record it only until the agent has answered.
    """
    if contents.kind != "agent":
        return None
    prompt = agent_prompt(contents)
    return agent_prompt(first) if prompt is None and first is not None else prompt


def _answer(contents: Contents) -> str | None:
    """The last answer of a lone agent; None for other kinds, and until it has answered."""
    if contents.kind != "agent":
        return None
    answers = [event.text for event in contents.events if event.kind == "lite_agent_execution_completed"]
    return answers[-1] if answers else None


def _texts(prompt: Any) -> list[str]:
    """The text of a prompt, or those of its messages with their roles."""
    if isinstance(prompt, str):
        return [prompt]
    return [f"{message['role']}: {message['content']}" for message in prompt]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


# The parts of a CrewAI checkpoint that a comparison aligns.


def comparable(contents: Contents, steps: Sequence[Contents] = ()) -> Iterator[Part]:
    """The inputs, agents, state, outputs, last conversation of each task, and calls of each tool."""
    yield from parts_of(Section.INPUTS, contents.inputs)
    yield from _settings(contents)
    yield from followed_parts(contents)
    yield from _conversations(contents)
    yield from _calls(contents.events)


def followed_parts(contents: Contents) -> Iterator[Part]:
    """The state of a flow, and the outputs of finished tasks and methods."""
    yield from parts_of(Section.STATE, contents.flow_state or {})
    for task, key in keyed_tasks(contents):
        if task.done:
            value = task.output if task.output_json is None else task.output_json
            yield Part(Section.OUTPUTS, key, task.title, value, unit=task.id)
    for method in contents.methods:
        if method.done:
            yield Part(Section.OUTPUTS, method.name, method.name, method.output)


def keyed_tasks(contents: Contents) -> list[tuple[Task, str]]:
    """Each task with the key of its output. If several tasks have a key, it is numbered from the second."""
    found, counts = [], defaultdict[str, int](int)
    for task in contents.tasks:
        key = _key(task)
        counts[key] += 1
        found.append((task, key if counts[key] == 1 else f"{key} ({counts[key]})"))
    return found


def _settings(contents: Contents) -> Iterator[Part]:
    for position, agent in enumerate(contents.agents, 1):
        # A role may contain inputs, so agents are aligned by their position.
        traits = [
            (_("model"), agent.model),
            (_("goal"), agent.goal),
            (_("backstory"), agent.backstory),
            (_("tools"), list(agent.tools)),
        ]
        yield from settings_of(f"agent {position}", agent.role, traits)
    for task in contents.tasks:
        traits = [
            (_("description"), task.template),
            (_("expected output"), task.expected_template),
            (_("agent"), task.agent),
            (_("tools"), list(task.tools)),
        ]
        yield from settings_of(_key(task), task.title, traits)


def _key(task: Task) -> str:
    """The key of a task, which is the same in every run. Ids of tasks differ between runs."""
    return task.name or task.template or str(task.position)


def _conversations(contents: Contents) -> Iterator[Part]:
    """The last conversation of each task with a model. It contains the task's earlier conversations."""
    tasks = {task.id: task for task in contents.tasks}
    last: dict[str, tuple[str, list[dict[str, str]]]] = {}
    for event in contents.events:
        task = tasks.get(event.task_id)
        key = _key(task) if task else event.agent or event.subject
        name = task.title if task else key
        if event.kind == "llm_call_started" and event.messages:
            messages = [{"role": one.role, "content": one.content} for one in event.messages]
            last[key] = (name, messages)
        elif event.kind == "llm_call_completed" and event.text and key in last:
            last[key][1].append({"role": "assistant", "content": event.text})
    for key, (name, messages) in last.items():
        yield Part(Section.MESSAGES, key, name, messages)


def _calls(events: Sequence[Event]) -> Iterator[Part]:
    calls: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event.kind == "tool_usage_started":
            calls[event.subject].append({"arguments": event.text})
        elif event.kind in ("tool_usage_finished", "tool_usage_error") and calls.get(event.subject):
            calls[event.subject][-1]["result"] = event.text
    for name, made in calls.items():
        yield Part(Section.TOOLS, name, name, made)


# The texts of a CrewAI checkpoint that the search finds.


def search_texts(contents: Contents) -> Iterator[SearchText]:
    """The texts of a checkpoint, each with the tab that shows it."""
    yield SearchText(TextKind.NAME, contents.name, "tab=overview")
    for name, value in contents.inputs.items():
        yield SearchText(TextKind.INPUT, f"{name}: {_text(value)}", "tab=inputs")
    for name, value in (contents.flow_state or {}).items():
        yield SearchText(TextKind.STATE, f"{name}: {_text(value)}", "tab=state")
    yield from _units(contents)
    for agent in contents.agents:
        text = "\n".join((agent.role, agent.goal, agent.backstory))
        yield SearchText(TextKind.PROMPT, text, "tab=overview", agent=agent.role, model=agent.model)
    yield from _events(contents)


def _units(contents: Contents) -> Iterator[SearchText]:
    for task in contents.tasks:
        prompt = f"{task.description}\n{task.expected_output}"
        yield SearchText(TextKind.PROMPT, prompt, "tab=tasks", task.title, task.agent)
        if task.output:
            yield SearchText(TextKind.OUTPUT, task.output, "tab=tasks", task.title, task.agent)
    for method in contents.methods:
        if method.output is not None:
            yield SearchText(TextKind.OUTPUT, _text(method.output), "tab=tasks", method.name)


def _events(contents: Contents) -> Iterator[SearchText]:
    """The texts of model calls, tools and failures. The outputs of units are yielded by ``_units``."""
    position, titles = 0, {task.id: task.title for task in contents.tasks}
    for number, event in enumerate(contents.events):
        first = number if event.is_internal else position
        position += not event.is_internal
        yield from _event(event, first - first % EVENTS_A_PAGE, titles.get(event.task_id, ""))


def _event(event: Event, first: int, unit: str) -> Iterator[SearchText]:
    query_string = "tab=events" + ("&internal=1" if event.is_internal else "")
    query_string += f"&event={first}" if first else ""
    for message in event.messages:
        yield SearchText(TextKind.MESSAGE, message.content, query_string, unit, event.agent, event.model)
    kind = _kind_of(event)
    if kind is not None and event.text:
        subject = f"{event.subject}: " if kind == TextKind.TOOL and event.subject else ""
        yield SearchText(kind, f"{subject}{event.text}", query_string, unit, event.agent, event.model)


def _kind_of(event: Event) -> TextKind | None:
    if event.is_failure:
        return TextKind.ERROR
    if event.kind.startswith("tool_"):
        return TextKind.TOOL
    is_answer = event.kind.startswith("llm_") and event.kind != "llm_stream_chunk"
    return TextKind.MESSAGE if is_answer else None


# Reads what a list of runs shows from a checkpoint's contents.


def run_inputs(contents: Contents) -> Mapping[str, Any]:
    """The inputs of a crew, the inputs or state of a flow, or the prompt of an agent."""
    if contents.kind == "agent":
        prompt = agent_prompt(contents)
        text = prompt[-1]["content"] if isinstance(prompt, list) and prompt else prompt
        return {"": text} if text else {}
    state = contents.flow_state or {}
    return contents.inputs or {name: value for name, value in state.items() if name != "id"}


# The graph of a crew's tasks or of a flow's methods, from a checkpoint and the project's source.


START = "__start__"
CONDITION = "condition"


def unit_graph(contents: Contents, source: Any = None) -> UnitGraph | None:
    """The units with their statuses, and which follows which; None for a lone agent.

    ``source`` is from ``read_source``. Without it, the methods of a flow are those that have begun.
    """
    if contents.kind == "crew" and contents.tasks:
        return _of_crew(contents, source if isinstance(source, ConditionalTasks) else None)
    if contents.kind == "flow":
        methods = source if isinstance(source, tuple) else ()
        return _of_flow(contents, methods) if methods else _of_events(contents)
    return None


def _of_crew(contents: Contents, source: ConditionalTasks | None) -> UnitGraph:
    """Tasks in their order. Async tasks between two others run at the same time."""
    names = {task.position: f"{task.position}. {task.title}" for task in contents.tasks}
    statuses, is_next = {}, True
    for task in contents.tasks:
        status = "done" if task.done else "skipped" if task.is_skipped else "next" if is_next else ""
        # The async tasks behind an unfinished one run with it.
        is_next &= task.done or task.is_skipped or task.is_async
        statuses[names[task.position]] = status
    edges = []
    for before, after in pairwise([[], *_at_once(contents.tasks)]):
        for task in after:
            has_condition = task.is_skipped or bool(source and source.has(task.name, task.template))
            for first in [names[one.position] for one in before] or [START]:
                label = CONDITION if has_condition else ""
                edges.append(GraphEdge(first, names[task.position], has_condition, label))
    return UnitGraph({START: "", **statuses}, tuple(edges), is_inferred=source is None)


def _at_once(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """The tasks that run at the same time, in order."""
    group: list[Task] = []
    for task in tasks:
        if group and not (task.is_async and group[-1].is_async):
            yield group
            group = []
        group.append(task)
    if group:
        yield group


def _of_flow(contents: Contents, methods: Sequence[FlowMethod]) -> UnitGraph:
    """Methods as the source declares them."""
    finished = {method.name for method in contents.methods if method.done}
    unfinished = {one.name for one in methods} - finished
    ahead = following_of(contents, methods)
    certain = ahead.certain if ahead and ahead.fits else ()
    statuses = {
        one.name: "next"
        if one.name in certain and _is_reached(one, finished, unfinished)
        else "done"
        if one.name in finished
        else ""
        for one in methods
    }
    statuses |= {name: "done" for name in finished if name not in statuses}
    edges = dict.fromkeys(edge for one in methods for edge in _edges_to(one, methods))
    return UnitGraph({START: "", **statuses}, tuple(edges), is_inferred=False)


def _is_reached(method: FlowMethod, finished: set[str], unfinished: set[str]) -> bool:
    """Whether a method that follows is triggered by a finished one, or by the route of a finished router."""
    condition = method.listens_to or method.starts_on
    if condition is None or condition.is_met(finished):
        return True
    return not any(name in unfinished for name in condition.mentioned())


def _edges_to(method: FlowMethod, methods: Sequence[FlowMethod]) -> Iterator[GraphEdge]:
    names = {one.name for one in methods}
    if method.starts and method.starts_on is None:
        yield GraphEdge(START, method.name)
    for condition in (method.starts_on, method.listens_to):
        for label in condition.mentioned() if condition else ():
            if label in names:
                yield GraphEdge(label, method.name)
                continue
            routers = [one for one in methods if one.is_router and label in one.labels]
            for router in routers or [one for one in methods if one.is_open]:
                yield GraphEdge(router.name, method.name, True, label)


def _of_events(contents: Contents) -> UnitGraph | None:
    """Methods that have begun, each after the one that had finished last."""
    statuses, edges, last = dict[str, str](), dict[GraphEdge, None](), START
    for event in contents.events:
        if event.is_internal or event.flow not in ("", contents.name):
            continue
        if event.kind == "method_execution_started":
            statuses.setdefault(event.subject, "next")
            edges[GraphEdge(last, event.subject, is_inferred=True)] = None
        elif event.kind == "method_execution_finished":
            last = event.subject
            statuses[last] = "done"
    statuses |= {method.name: "done" for method in contents.methods if method.done}
    return UnitGraph({START: "", **statuses}, tuple(edges), is_inferred=True) if statuses else None
