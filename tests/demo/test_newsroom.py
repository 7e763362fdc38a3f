"""The demo's crew, flow and agent run, and CrewAI writes their checkpoints."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engine


def read_folder(folder: Path) -> list[dict[str, Any]]:
    """Return the checkpoints of a folder, shortest history first."""
    found: list[dict[str, Any]] = [json.loads(path.read_bytes()) for path in folder.rglob("*.json")]
    return sorted(found, key=lambda checkpoint: len(checkpoint["event_record"]["nodes"]))


def crew_of(checkpoint: dict[str, Any]) -> dict[str, Any]:
    crews = [entity for entity in checkpoint["entities"] if entity["entity_type"] == "crew"]
    assert len(crews) == 1
    crew: dict[str, Any] = crews[0]
    return crew


def events_of(checkpoint: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    events = [node["event"] for node in checkpoint["event_record"]["nodes"].values()]
    return [event for event in events if event["type"] == kind]


def test_the_crew_writes_a_checkpoint_at_every_step(written_stores: Path) -> None:
    triggers = [checkpoint["trigger"] for checkpoint in read_folder(written_stores / "article")]
    steps = ["task_started", "task_completed"] * 4
    assert triggers == ["crew_kickoff_started", *steps, "crew_kickoff_completed"]


def test_the_crews_inputs_keep_their_types(written_stores: Path) -> None:
    first, *started = read_folder(written_stores / "article")
    # CrewAI sets inputs after it emits the kickoff event.
    assert crew_of(first)["checkpoint_inputs"] is None
    for checkpoint in started:
        inputs = crew_of(checkpoint)["checkpoint_inputs"]
        assert inputs == {"topic": "AI checkpoints", "year": 2026, "sources": ["arXiv", "Hacker News"]}


def test_the_model_calls_the_projects_own_tool_for_each_source(written_stores: Path) -> None:
    last = read_folder(written_stores / "article")[-1]
    tools = crew_of(last)["tasks"][0]["tools"]
    assert [tool["tool_type"] for tool in tools] == ["newsroom.tools.archive.SearchTheArchive"]
    used = events_of(last, "tool_usage_finished")
    assert [event["tool_name"] for event in used] == ["search_the_archive"] * 2
    assert "41 agent frameworks" in used[0]["output"]


def test_the_headline_reads_the_draft_and_skips_the_fact_check(written_stores: Path) -> None:
    last = read_folder(written_stores / "article")[-1]
    tasks = {task["name"]: task for task in crew_of(last)["tasks"]}
    contexts = {event["task_name"]: event["context"] for event in events_of(last, "task_started")}
    assert contexts["Write the headline"] == tasks["Draft the article"]["output"]["raw"]
    assert json.loads(tasks["Fact-check the draft"]["output"]["raw"])["claims"]


def test_every_model_call_streams_and_reports_its_tokens(written_stores: Path) -> None:
    last = read_folder(written_stores / "article")[-1]
    calls = events_of(last, "llm_call_completed")
    assert len(calls) == 6
    assert all(call["usage"]["total_tokens"] > 0 for call in calls)
    assert len(events_of(last, "llm_stream_chunk")) > 20


def test_the_sqlite_store_and_the_folder_hold_the_same(written_stores: Path) -> None:
    with closing(sqlite3.connect(f"file:{written_stores / 'article.db'}?mode=ro", uri=True)) as store:
        rows = store.execute("SELECT parent_id, json_extract(data, '$.trigger') FROM checkpoints").fetchall()
    assert len(rows) == 10
    assert sum(1 for parent, _ in rows if parent is None) == 1
    assert sorted(trigger for _, trigger in rows) == sorted(
        checkpoint["trigger"] for checkpoint in read_folder(written_stores / "article")
    )


def test_the_flow_takes_the_longer_route_and_keeps_its_state(written_stores: Path) -> None:
    last = read_folder(written_stores / "digest")[-1]
    flows = [entity for entity in last["entities"] if entity["checkpoint_completed_methods"]]
    assert len(flows) == 1
    done = {"write_outline", "choose_length", "write_long", "publish"}
    assert set(flows[0]["checkpoint_completed_methods"]) == done
    state = flows[0]["checkpoint_state"]
    assert state["published"] is True
    assert state["year"] == 2026
    assert "Digest on AI checkpoints" in state["digest"]


def test_the_agent_writes_a_checkpoint_at_its_start_and_end(written_stores: Path) -> None:
    found = {checkpoint["trigger"]: checkpoint for checkpoint in read_folder(written_stores / "interview")}
    assert set(found) == {"lite_agent_execution_started", "lite_agent_execution_completed"}
    assert {checkpoint["entities"][0]["role"] for checkpoint in found.values()} == {"Interviewer"}
