"""The contents of a CrewAI checkpoint for the terminal."""

import json
from collections.abc import Iterator
from typing import Any

from viewer.engines.crewai.contents import Contents
from viewer.engines.crewai.planning.agent_prompt import agent_prompt

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
