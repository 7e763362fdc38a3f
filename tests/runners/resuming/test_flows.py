"""Resumes and forks of real flows."""

import shutil
from pathlib import Path

import pytest

from tests.engine_runs.checkpoints import after_method, is_chain, written
from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import marks, request_for, saved_in
from tests.runners.conftest import Engine
from viewer.engines.plan import Edits

pytestmark = pytest.mark.engine
FLOW = "press_flow:PressFlow"


def test_a_resumed_flow_uses_the_projects_class_and_writes_checkpoints(
    engine: Engine, model: TestModel, stores: Path
) -> None:
    location, before = stores / "flow", marks(stores / "flow")
    start = after_method(location, "length")
    request = request_for(start, location, entity="flow", kind="resume", entry_point=FLOW)
    run = engine.run(request)
    assert run.end["status"] == "succeeded", run.end
    finished = set(start.root["checkpoint_completed_methods"])
    ran = {line["method"] for line in run.of("method_started")}
    assert ran == {"announce", "write_long", "publish"} - finished
    assert len(model.requests) == len(ran)
    new = written(location, before)
    assert len(new) == len(ran)
    assert is_chain(start.id, new)
    assert set(new[-1].root["checkpoint_completed_methods"]) == finished | ran
    assert [entity["entity_type"] for entity in new[-1].body["entities"]].count("flow") == 1


def test_finished_methods_pass_on_their_recorded_results_and_routes(
    engine: Engine, model: TestModel, stores: Path
) -> None:
    start = after_method(stores / "flow", "outline")
    run = engine.run(request_for(start, stores / "flow", entity="flow", kind="resume", entry_point=FLOW))
    assert run.end["status"] == "succeeded", run.end
    assert "Announce <outline of AI>" in model.prompts()
    ran = sorted(line["method"] for line in run.of("method_started"))
    assert ran == ["announce", "length", "publish", "write_long"]


def test_an_edited_state_is_in_the_forks_first_checkpoint_and_reaches_its_methods(
    engine: Engine, model: TestModel, stores: Path
) -> None:
    location, before = stores / "flow", marks(stores / "flow")
    start = after_method(location, "length")
    edits = Edits(state={"outline": "my outline", "year": 1999})
    run = engine.run(request_for(start, location, entity="flow", edits=edits, entry_point=FLOW))
    assert run.end["status"] == "succeeded", run.end
    assert "Write AI from my outline" in model.prompts()
    assert any(prompt.endswith("in 1999") for prompt in model.prompts())
    new = written(location, before)
    assert new[0].parent == start.id
    assert new[0].root["checkpoint_state"]["year"] == 1999
    assert is_chain(start.id, new)
    assert {saved.branch for saved in new} == {"try-it"}


def test_a_state_that_does_not_fit_is_refused(engine: Engine, model: TestModel, stores: Path) -> None:
    start = after_method(stores / "flow", "length")
    edits = Edits(state={"year": "no number"})
    run = engine.run(request_for(start, stores / "flow", entity="flow", edits=edits, entry_point=FLOW))
    assert run.end["status"] == "failed"
    assert "state is invalid" in run.end["error"]
    assert model.requests == []


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
    engine: Engine, model: TestModel, stores: Path, entry_point: str, text: str
) -> None:
    location, before = stores / "flow", marks(stores / "flow")
    start = after_method(location, "outline")
    run = engine.run(request_for(start, location, entity="flow", entry_point=entry_point))
    assert run.end["status"] == "failed"
    assert text in run.end["error"]
    assert model.requests == []
    assert written(location, before) == []


def test_events_of_a_resumed_flow_are_numbered_after_the_recorded_ones(engine: Engine, stores: Path) -> None:
    location, before = stores / "flow", marks(stores / "flow")
    start = after_method(location, "length")
    engine.run(request_for(start, location, entity="flow", kind="resume", entry_point=FLOW))
    old = start.body["event_record"]["nodes"]
    highest = max(node["event"]["emission_sequence"] for node in old.values())
    nodes = written(location, before)[-1].body["event_record"]["nodes"]
    assert all(node["event"]["emission_sequence"] > highest for key, node in nodes.items() if key not in old)


LOOP = "press_loop:LoopFlow"


def test_a_loop_resumed_from_any_checkpoint_ends_as_the_original(
    engine: Engine, model: TestModel, stores: Path
) -> None:
    originals = saved_in(stores / "loop")
    assert len(originals) == 7
    last = originals[-1].root
    for number in range(len(originals)):
        location = Path(shutil.copytree(stores / "loop", stores / f"loop-{number}"))
        start, before = saved_in(location)[number], marks(location)
        model.reset()
        request = request_for(start, location, entity="flow", kind="resume", entry_point=LOOP)
        run = engine.run(request)
        assert run.end["status"] == "succeeded", run.end
        assert run.end["result"] == last["checkpoint_method_outputs"][-1]["output"]
        assert len(model.requests) == 6 - number
        new = written(location, before)
        assert len(new) == 6 - number
        assert not new or is_chain(start.id, new)
        for field in ("checkpoint_state", "checkpoint_method_outputs", "checkpoint_method_counts"):
            assert (new[-1] if new else start).root[field] == last[field]


def test_a_fork_after_the_router_runs_the_rounds_of_its_edited_state(
    engine: Engine, model: TestModel, stores: Path
) -> None:
    location, before = stores / "loop", marks(stores / "loop")
    start = saved_in(location)[3]
    assert start.root["checkpoint_method_counts"] == {"write": 2, "judge": 2}
    edits = Edits(state={"enough": 4, "topic": "tea"})
    run = engine.run(request_for(start, location, entity="flow", edits=edits, entry_point=LOOP))
    assert run.end["status"] == "succeeded", run.end
    ran = [line["method"] for line in run.of("method_started")]
    assert ran == ["write", "judge", "write", "judge", "publish"]
    assert len(model.requests) == 5
    assert "Write tea, round 3" in model.prompts()[0]
    assert written(location, before)[-1].root["checkpoint_method_counts"] == {
        "write": 4,
        "judge": 4,
        "publish": 1,
    }
