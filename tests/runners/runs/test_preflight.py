"""Preflight checks with real CrewAI: they call no model and change nothing."""

import json
from pathlib import Path
from typing import Any

from tests.engine_runs.checkpoints import after_method, after_task
from tests.engine_runs.runs import Saved, marks, new_run_request, request_for
from tests.runners.conftest import Engine

CREW = "press_crew:make_crew"


def check(engine: Engine, start: Saved, location: Path, **more: Any) -> dict[str, Any]:
    """Return the report of a check, which must have written nothing at the location."""
    before = marks(location)
    run = engine.completed({**request_for(start, location, steps=[], **more), "kind": "preflight"})
    assert marks(location) == before
    assert [line["kind"] for line in run.lines][-2:] == ["preflight", "ended"]
    report: dict[str, Any] = run.of("preflight")[0]["report"]
    return report


def named(report: dict[str, Any], fate: str) -> set[tuple[str, str, int]]:
    return {
        (part["what"], part["name"], part["task"]) for part in report["components"] if part["fate"] == fate
    }


def test_without_an_entry_point_restored_and_lost_components_are_listed(engine: Engine, stores: Path) -> None:
    start = after_task(stores / "crew", 2)
    report = check(engine, start, stores / "crew")
    assert named(report, "restored") == {("tools", "search_archive", 3), ("models", "gpt-4o-mini", 0)}
    assert named(report, "lost") == {("links", "", 3), ("links", "", 4), ("unseen", "", 0)}
    assert named(report, "project") == set()
    assert report["imports"] == ["press_crew"] and report["is_complete"]
    assert [(one["kind"], one["name"]) for one in report["effects"]] == [
        ("module", "press_crew"),
        ("key", "OPENAI_API_KEY"),
    ]
    assert report["engine_version"] == report["checkpoint_version"] == start.body["crewai_version"]
    assert not (report["blocks"] or report["questions"] or report["notes"])
    assert engine.model.requests == []


def test_with_an_entry_point_every_component_is_the_projects(engine: Engine, stores: Path) -> None:
    report = check(engine, after_task(stores / "crew", 2), stores / "crew", entry_point=CREW)
    assert named(report, "project") >= {
        ("tools", "search_archive", 3),
        ("guardrails", "no_shouting", 3),
        ("links", "", 4),
    }
    assert named(report, "lost") == set()
    assert not (report["blocks"] or report["questions"])
    assert engine.model.requests == []


def test_a_changed_crew_raises_questions_and_a_missing_entry_point_blocks(
    engine: Engine, stores: Path
) -> None:
    start = after_task(stores / "crew", 2)
    start.tasks[1]["checkpoint_original_description"] = "Another task"
    Path(start.source).write_text(json.dumps(start.body))
    report = check(engine, start, stores / "crew", entry_point=CREW)
    assert report["questions"] == [
        {
            "kind": "task",
            "saved": start.tasks[1]["id"],
            "position": 2,
            "title": "Another task",
            "reason": "changed",
            "choices": [["2", "Check {topic}"], ["-", ""]],
        }
    ]
    blocked = check(engine, start, stores / "crew", entry_point="press_crew:nobody")
    assert blocked["blocks"] == ["press_crew:nobody does not exist: the module press_crew has no nobody."]
    assert engine.model.requests == []


def test_a_check_of_a_new_run_loads_the_entry_point_and_reports_what_blocks(
    engine: Engine, tmp_path: Path
) -> None:
    asked = {
        **new_run_request(tmp_path / "new.db", "crew", CREW, {}, store_kind="sqlite"),
        "kind": "preflight",
    }
    report = engine.run(asked).of("preflight")[0]["report"]
    assert report["blocks"] == [] and report["checkpoint_version"] == ""
    assert report["imports"] == ["press_crew"] and report["sqlite_version"] >= "3.45"
    assert named(report, "project") >= {("tools", "search_archive", 3), ("guardrails", "no_shouting", 3)}
    assert named(report, "lost") == set()
    blocked = engine.run({**asked, "entity": "flow"}).of("preflight")[0]["report"]
    assert len(blocked["blocks"]) == 1 and "press_crew:make_crew" in blocked["blocks"][0]
    assert engine.model.requests == [] and list(tmp_path.glob("new*")) == []


def test_a_saved_state_that_does_not_fit_its_class_blocks(engine: Engine, stores: Path) -> None:
    start = after_method(stores / "flow", "length")
    fine = check(engine, start, stores / "flow", entry_point="press_flow:PressFlow")
    assert not fine["blocks"] and named(fine, "lost") == set()
    start.root["checkpoint_state"]["year"] = "soon"
    Path(start.source).write_text(json.dumps(start.body))
    report = check(engine, start, stores / "flow", entry_point="press_flow:PressFlow")
    assert "is invalid" in report["blocks"][0] and "soon" not in report["blocks"][0]


def test_a_run_with_unaccepted_losses_is_refused(engine: Engine, stores: Path) -> None:
    location = stores / "crew"
    start, before = after_task(location, 2), marks(location)
    request = {**request_for(start, location), "options": {"accepted": ["unseen"]}}
    error = engine.refused(request)
    assert "would be lost, and nobody has accepted that: links/task 3; links/task 4." in error
    assert marks(location) == before
