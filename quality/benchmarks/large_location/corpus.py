"""Writes a folder of checkpoints as CrewAI lays it out: about 9 KB each, cut down from a real one."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = next(ROOT.glob("quality/benchmarks/samples/*_877b0992_p*"))
RUNS, CHECKPOINTS = 500, 100_000
LONG_CHECKPOINTS, LONG_FORKS = 20_000, 400
# How many checkpoints before its end a run is forked at most, and how many branches go on at once.
FORK_REACH, OPEN_BRANCHES = 300, 4
# Each checkpoint repeats this many of the newest events.
EVENTS = 6
START = datetime(2026, 1, 1, tzinfo=UTC)
TRIGGERS = ("task_started", "llm_call_completed", "task_completed")
FAILED_EVERY = 97


def write(folder: Path, checkpoints: int = CHECKPOINTS) -> str:
    """Write the files, the long run last. Returns its kickoff."""
    long = checkpoints * LONG_CHECKPOINTS // CHECKPOINTS
    length, more = divmod(checkpoints - long, RUNS - 1)
    at = START
    for number in range(RUNS - 1):
        at = write_run(folder, number, at, length + (number < more), 0)
    write_run(folder, RUNS - 1, at, long, checkpoints * LONG_FORKS // CHECKPOINTS)
    return kickoff_of(RUNS - 1)


def write_new(folder: Path) -> None:
    """Write a new run with one checkpoint."""
    write_run(folder, RUNS, datetime(2027, 1, 1, tzinfo=UTC), 1, 0)


def kickoff_of(number: int) -> str:
    """The id of the event with which this run began."""
    return f"{number:08x}-0000-4000-8000-000000000000"


def write_run(folder: Path, number: int, at: datetime, length: int, forks: int) -> datetime:
    """Write a run with this many branches besides ``main``. Returns the time of its end."""
    crew, kickoff = json.dumps(_crew(number)), _node(_kickoff(number))
    names: list[str] = []
    events: list[list[str]] = []
    for row, (branch, parent) in enumerate(_tree(number, length, forks)):
        at += timedelta(seconds=1)
        names.append(f"{at:%Y%m%dT%H%M%S}_{number:08x}")
        before = events[parent] if parent is not None else []
        events.append([*before[1 - EVENTS :], _node(_call(number, row))])
        parent_id = None if parent is None else names[parent]
        trigger = TRIGGERS[row % len(TRIGGERS)] if (row + 1) % FAILED_EVERY else "task_failed"
        head = {"crewai_version": "1.15.30", "parent_id": parent_id, "branch": branch, "trigger": trigger}
        nodes = ", ".join([kickoff, *events[-1]])
        text = f'{json.dumps(head)[:-1]}, "entities": [{crew}], "event_record": {{"nodes": {{{nodes}}}}}}}'
        target = folder / branch / f"{names[-1]}_p-{parent_id or 'none'}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return at


def _tree(number: int, length: int, forks: int) -> Iterator[tuple[str, int | None]]:
    """The branch of each checkpoint, and the position of its parent."""
    chance = random.Random(number)
    forked = set(chance.sample(range(min(length, FORK_REACH), length), forks)) if forks else set()
    heads: dict[str, int | None] = {"main": None}
    for row in range(length):
        branch = chance.choice(list(heads)[-OPEN_BRANCHES:])
        if row in forked:
            branch = f"fork/{row}"
            heads[branch] = chance.randrange(row - FORK_REACH, row)
        yield branch, heads[branch]
        heads[branch] = row


def _crew(number: int) -> dict[str, Any]:
    """The crew of the sample, with one task and one agent."""
    crew: dict[str, Any] = json.loads(SAMPLE.read_bytes())["entities"][0]
    task, agent = crew["tasks"][0], crew["agents"][0]
    del task["agent"], agent["agent_executor"]
    own = {"id": f"crew-{number}", "name": f"crew {number % 7}", "tasks": [task], "agents": [agent]}
    return crew | own | {"checkpoint_kickoff_event_id": kickoff_of(number)}


def _kickoff(number: int) -> dict[str, Any]:
    return {
        "type": "crew_kickoff_started",
        "event_id": kickoff_of(number),
        "emission_sequence": 1,
        "crew_name": f"crew {number % 7}",
        "inputs": {"topic": f"topic {number}", "year": 2026},
    }


def _call(number: int, row: int) -> dict[str, Any]:
    return {
        "type": "llm_call_completed",
        "event_id": f"{number:08x}-0000-4000-8001-{row:012x}",
        "emission_sequence": row + 2,
        "agent_role": "Researcher",
        "task_name": "Research AI trends for 2026",
        "model": "gpt-4o-mini",
        "messages": [{"role": "user", "content": f"Research topic {number}, step {row}. " * 4}],
        "response": f"Answer {row} about topic {number}. " * 8,
        "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
    }


def _node(event: dict[str, Any]) -> str:
    """The event as a member of the record's object."""
    return f"{json.dumps(event['event_id'])}: {json.dumps({'event': event, 'edges': {}})}"
