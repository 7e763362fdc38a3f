"""Resumes and forks of real flows."""

from pathlib import Path

import pytest

from tests.engine_runs.checkpoints import after_method, is_chain, written
from tests.engine_runs.runs import marks, request_for
from tests.runners.conftest import Engine

FLOW = "press_flow:PressFlow"


def test_a_resumed_flow_uses_the_projects_class_and_writes_checkpoints(engine: Engine, stores: Path) -> None:
    location, before = stores / "flow", marks(stores / "flow")
    start = after_method(location, "length")
    request = request_for(start, location, kind="resume", entry_point=FLOW)
    run = engine.completed(request)
    finished = set(start.root["checkpoint_completed_methods"])
    ran = {line["method"] for line in run.of("method_started")}
    assert ran == {"announce", "write_long", "publish"} - finished
    assert len(engine.model.requests) == len(ran)
    new = written(location, before)
    assert len(new) == len(ran)
    assert is_chain(start.id, new)
    assert set(new[-1].root["checkpoint_completed_methods"]) == finished | ran
    assert [entity["entity_type"] for entity in new[-1].body["entities"]].count("flow") == 1


def test_finished_methods_pass_on_their_recorded_results_and_routes(engine: Engine, stores: Path) -> None:
    start = after_method(stores / "flow", "outline")
    run = engine.completed(request_for(start, stores / "flow", kind="resume", entry_point=FLOW))
    assert "Announce <outline of AI>" in engine.model.prompts()
    ran = sorted(line["method"] for line in run.of("method_started"))
    assert ran == ["announce", "length", "publish", "write_long"]


@pytest.mark.parametrize(
    ("entry_point", "text"),
    [
        ("", "needs its code"),
        ("press_crew:make_crew", "provides a Crew, not a flow"),
        ("press_flow:Nobody", "has no Nobody"),
        ("nowhere:Flow", "cannot be imported"),
    ],
)
def test_a_flow_without_its_class_is_refused(
    engine: Engine, stores: Path, entry_point: str, text: str
) -> None:
    location, before = stores / "flow", marks(stores / "flow")
    start = after_method(location, "outline")
    error = engine.refused(request_for(start, location, entry_point=entry_point))
    assert text in error
    assert written(location, before) == []


def test_events_of_a_resumed_flow_are_numbered_after_the_recorded_ones(engine: Engine, stores: Path) -> None:
    location, before = stores / "flow", marks(stores / "flow")
    start = after_method(location, "length")
    engine.run(request_for(start, location, kind="resume", entry_point=FLOW))
    old = start.body["event_record"]["nodes"]
    highest = max(node["event"]["emission_sequence"] for node in old.values())
    nodes = written(location, before)[-1].body["event_record"]["nodes"]
    assert all(node["event"]["emission_sequence"] > highest for key, node in nodes.items() if key not in old)
