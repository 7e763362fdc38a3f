"""The contents of a CrewAI checkpoint for the terminal."""

from collections.abc import Iterator
from typing import Any

from viewer.engines.crewai.contents import Contents

MAX_LINE = 90


def info(contents: Contents) -> dict[str, Any]:
    """The contents as plain values."""
    return {
        "inputs": contents.inputs,
        "tasks": [
            {
                "id": task.id,
                "description": task.description,
                "agent": task.agent,
                "done": task.done,
                "output": task.output,
            }
            for task in contents.tasks
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


def info_lines(contents: Contents) -> Iterator[str]:
    """The contents as lines."""
    yield from (f"{name} = {value!r}" for name, value in contents.inputs.items())
    for task in contents.tasks:
        yield f"{'✓' if task.done else '·'} {task.position}. {_short(task.description)}  [{task.agent}]"
        if task.output:
            yield f"     {_short(task.output)}"
    if contents.flow_state is not None:
        yield from (f"{name}: {_short(str(value))}" for name, value in contents.flow_state.items())
    yield from (f"{agent.role}: {_short(agent.goal)} ({agent.model})" for agent in contents.agents)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"
