"""What a page and the terminal show of a CrewAI checkpoint."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from viewer.engines.contents import Section, Tab, part_id
from viewer.engines.crewai.comparable import keyed_tasks
from viewer.engines.crewai.contents import Contents, Method, Task, changes_since
from viewer.engines.crewai.planning import agent_prompt
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
            yield _of_event(event, contents)
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


def _of_event(event: Event, contents: Contents) -> Output:
    title = event.subject or event.agent or contents.name
    return Output(title, event.text, event.agent if event.agent != title else "", event=event.kind)


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
