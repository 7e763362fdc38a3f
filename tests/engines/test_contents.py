"""What is read of a stored checkpoint of every version of CrewAI."""

import json
from pathlib import Path
from typing import Any

import pytest

from viewer.engines.crewai.contents import TaskChange, changes_since, contents_of

STORES = Path(__file__).resolve().parent.parent / "recorded_stores"
FILES = sorted(STORES.rglob("*.json"))
VERSIONS = ("1.14.1", "1.14.2", "1.14.7", "1.15.30")


def newest(version: str, kind: str) -> dict[str, Any]:
    """The longest record of a store: the last checkpoint of its run."""
    files = [path for path in FILES if path.is_relative_to(STORES / version / kind)]
    return dict(json.loads(max(files, key=lambda path: path.stat().st_size).read_text()))


def first(version: str) -> dict[str, Any]:
    files = [path for path in FILES if path.is_relative_to(STORES / version / "json")]
    return dict(json.loads(min(files, key=lambda path: path.stat().st_size).read_text()))


@pytest.mark.parametrize("version", [v for v in VERSIONS if (STORES / v / "json").exists()])
def test_a_crews_tasks_inputs_and_agents_are_read(version: str) -> None:
    contents = contents_of(first(version))
    assert (contents.kind, contents.name) == ("crew", "research")
    assert contents.inputs == {"topic": "AI", "year": 2026}
    assert [(task.position, task.agent) for task in contents.tasks] == [
        (1, "Researcher on AI"), (2, "Writer"), (3, "Researcher on AI"),
    ]  # fmt: skip
    assert not any(task.done or task.output for task in contents.tasks)
    assert [agent.model for agent in contents.agents] == ["gpt-4o-mini"] * 2


@pytest.mark.parametrize("version", [v for v in VERSIONS if (STORES / v / "flow").exists()])
def test_a_flows_name_methods_and_state_are_read(version: str) -> None:
    contents = contents_of(newest(version, "flow"))
    assert contents.kind == "flow"
    assert contents.name == ("MyFlow" if version == "1.15.30" else "ArticleFlow")
    assert contents.flow_state and contents.flow_state["topic"] == "AI"
    assert [method.done for method in contents.methods] == [True, True, True]
    assert str(contents.methods[0].output) in str(contents.methods[1].output)


@pytest.mark.parametrize("version", [v for v in VERSIONS if (STORES / v / "agent").exists()])
def test_a_lone_agent_is_the_root_and_its_executor_is_not(version: str) -> None:
    contents = contents_of(newest(version, "agent"))
    assert (contents.kind, contents.name) == ("agent", "Researcher")
    assert [agent.role for agent in contents.agents] == ["Researcher"]


def test_an_executor_is_never_the_root() -> None:
    executor = {"entity_type": "flow", "name": None, "suppress_flow_events": True, "executor_type": "agent"}
    crew = {"entity_type": "crew", "name": "mine"}
    assert contents_of({"entities": [executor, crew]}).name == "mine"
    assert contents_of({"entities": [executor]}).kind == "unknown"


def test_a_flow_that_asked_for_quiet_is_still_the_root_where_it_is_alone() -> None:
    assert contents_of({"entities": [{"entity_type": "flow", "suppress_flow_events": True}]}).kind == "flow"


def test_a_flow_that_holds_crews_is_their_root() -> None:
    entities = [{"entity_type": "crew", "name": "inner"}, {"entity_type": "flow", "name": "outer"}]
    assert contents_of({"entities": entities}).name == "outer"


def test_events_are_in_order_with_what_they_are_about() -> None:
    events = contents_of(newest("1.15.30", "json")).events
    assert [event.kind for event in events if not event.is_internal][:4] == [
        "crew_kickoff_started", "task_started", "agent_execution_started", "llm_call_started",
    ]  # fmt: skip
    answered = next(event for event in events if event.kind == "llm_call_completed")
    assert (answered.tokens, answered.agent) == (20, "Researcher on AI")
    assert [message.role for message in answered.messages] == ["system", "user"]
    assert answered.text.startswith("Thought:")
    started = next(event for event in events if event.kind == "agent_execution_started")
    assert started.subject == "Research AI trends for 2026"


def test_an_output_made_for_other_inputs_is_stale() -> None:
    task = {"description": "for 2030", "output": {"raw": "x", "description": "for 2026"}}
    read = contents_of({"entities": [{"entity_type": "crew", "tasks": [task]}]}).tasks[0]
    assert read.is_stale and read.output_for == "for 2026"


def crew_of(*outputs: str | None, completed: tuple[int, ...] = ()) -> dict[str, Any]:
    tasks = [{"id": str(n), "output": None if raw is None else {"raw": raw}} for n, raw in enumerate(outputs)]
    events = {f"e{n}": {"event": {"type": "task_completed", "task_id": str(n)}} for n in completed}
    return {"entities": [{"entity_type": "crew", "tasks": tasks}], "event_record": {"nodes": events}}


def test_a_branch_shows_what_it_kept_edited_and_ran() -> None:
    origin = contents_of(crew_of("a", "b", "c", None, None))
    own = contents_of(crew_of("a", "mine", "c again", "d", None, completed=(2, 3)))
    assert list(changes_since(origin, own).values()) == [
        TaskChange.KEPT, TaskChange.EDITED, TaskChange.RAN_AGAIN, TaskChange.RAN, TaskChange.TO_RUN,
    ]  # fmt: skip


def test_an_empty_body_is_an_unknown_checkpoint() -> None:
    contents = contents_of({})
    assert (contents.kind, contents.tasks, contents.events, contents.flow_state) == ("unknown", (), (), None)
