"""The parts of a CrewAI checkpoint that a comparison aligns."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from viewer.engines.comparable import Part, Section, parts_of, settings_of
from viewer.engines.crewai.contents import Contents, Task
from viewer.engines.crewai.contents.events import Event
from viewer.messages.marking import gettext_noop as _


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
            yield Part(Section.OUTPUTS, key, task.title, value)
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
