"""What comparisons, the search and lists of runs read of a CrewAI checkpoint."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from viewer.engines.contents import EVENTS_A_PAGE, Part, SearchText, Section, TextKind, parts_of, settings_of
from viewer.engines.crewai.contents import Contents, Task
from viewer.engines.crewai.planning import agent_prompt
from viewer.engines.crewai.recorded_events import Event
from viewer.messages.catalog import gettext_noop as _

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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# Reads what a list of runs shows from a checkpoint's contents.


def run_inputs(contents: Contents) -> Mapping[str, Any]:
    """The inputs of a crew, the inputs or state of a flow, or the prompt of an agent."""
    if contents.kind == "agent":
        prompt = agent_prompt(contents)
        text = prompt[-1]["content"] if isinstance(prompt, list) and prompt else prompt
        return {"": text} if text else {}
    state = contents.flow_state or {}
    return contents.inputs or {name: value for name, value in state.items() if name != "id"}
