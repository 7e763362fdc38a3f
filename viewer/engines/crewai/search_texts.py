"""The texts of a CrewAI checkpoint that the search finds."""

import json
from collections.abc import Iterator
from typing import Any

from viewer.engines.contents import EVENTS_A_PAGE
from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.contents.events import Event
from viewer.engines.search_texts import SearchText, TextKind


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
