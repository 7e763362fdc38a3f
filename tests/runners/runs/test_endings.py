"""The ends of runs and the events before them."""

import signal
from pathlib import Path

import pytest

from tests.engine_runs.checkpoints import after_method, after_task, is_chain, written
from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import KEY, marks, request_for, saved_in
from tests.runners.conftest import Engine
from tests.runners.resuming.test_crews import CREW
from viewer.engines.plan import Edits

pytestmark = pytest.mark.engine


def test_a_run_survives_a_panic_of_the_serializer(engine: Engine, model: TestModel, stores: Path) -> None:
    location, before = stores / "flow", marks(stores / "flow")
    start = after_method(location, "outline")
    request = request_for(start, location, entity="flow", entry_point="press_restless:RestlessFlow")
    run = engine.run(request, RESTLESS="3")
    assert run.end["status"] == "succeeded", run.end
    assert "panicked at" in run.log  # it really did
    assert model.prompts() == ["Stir", "Settle"]
    new = written(location, before)
    assert is_chain(start.id, new)
    assert set(new[-1].root["checkpoint_completed_methods"]) == {"outline", "stir", "settle"}


def test_a_repeated_panic_ends_the_run_with_a_message(engine: Engine, stores: Path) -> None:
    start = after_method(stores / "flow", "outline")
    request = request_for(start, stores / "flow", entity="flow", entry_point="press_restless:RestlessFlow")
    run = engine.run(request, RESTLESS="1000")
    assert run.status == 1
    assert run.end["status"] == "failed"
    assert "kept changing while it was written" in run.end["error"]


def test_code_that_exits_the_program_ends_the_run_with_a_message(cold_engine: Engine, stores: Path) -> None:
    start = after_method(stores / "flow", "outline")
    request = request_for(start, stores / "flow", entity="flow", entry_point="press_restless:LeavingFlow")
    run = cold_engine.run(request)
    assert run.end["status"] == "failed"
    assert "sys.exit(3)" in run.end["error"]


def test_an_async_task_that_exits_the_program_does_not_block_its_crew(engine: Engine, stores: Path) -> None:
    start = after_task(stores / "crew", 2)
    run = engine.run(request_for(start, stores / "crew", entry_point="press_restless:leaving_beside"))
    assert run.end["status"] == "failed"
    assert "sys.exit(3)" in run.end["error"]


def test_a_failing_model_fails_the_run_with_its_error_and_keeps_the_checkpoints(
    engine: Engine, stores: Path
) -> None:
    location, before = stores / "crew", marks(stores / "crew")
    start = after_task(location, 2)
    run = engine.run(request_for(start, location), OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert run.end["status"] == "failed"
    assert "onnect" in run.end["error"]
    assert "Traceback" in run.end["traceback"]
    assert is_chain(start.id, written(location, before))


def test_an_interrupted_run_is_cancelled_and_keeps_its_checkpoints(cold_engine: Engine, stores: Path) -> None:
    location, before = stores / "crew", marks(stores / "crew")
    start = after_task(location, 2)
    run = cold_engine.interrupt(request_for(start, location), signal.SIGINT)
    assert (run.end["status"], run.status) == ("cancelled", 130)
    assert run.lines[-1]["at"] - run.lines[-2]["at"] < 60  # although its model never answers
    new = written(location, before)
    assert [line["id"] for line in run.of("checkpoint")] == [saved.id for saved in new]
    assert is_chain(start.id, new)


def test_a_run_that_ignores_an_interrupt_ends_at_the_terminate_signal(engine: Engine, stores: Path) -> None:
    start = after_method(stores / "flow", "outline")
    request = request_for(start, stores / "flow", entity="flow", entry_point="press_restless:DeafFlow")
    run = engine.interrupt(request, signal.SIGINT, signal.SIGTERM)
    assert run.end["status"] == "cancelled"
    assert run.status == 143


def test_streamed_text_and_tokens_are_reported_as_they_arrive(engine: Engine, stores: Path) -> None:
    start = after_task(stores / "crew", 3)
    run = engine.run(request_for(start, stores / "crew", entry_point=CREW), PRESS_STREAMS="1")
    assert run.end["status"] == "succeeded", run.end
    text = "".join(line["text"] for line in run.of("text"))
    assert run.end["result"].strip() == text.strip()
    assert [line["total_tokens"] for line in run.of("model_completed")] == [12]
    assert {line["agent"] for line in run.of("text")} == {"Writer"}


def test_a_key_is_in_no_event_even_if_the_run_prints_it(engine: Engine, stores: Path) -> None:
    start = after_task(stores / "crew", 2)
    run = engine.run(request_for(start, stores / "crew", edits=Edits(inputs={"topic": KEY})))
    assert run.end["status"] == "succeeded", run.end
    said = str(run.lines)
    assert KEY not in said
    assert "Write about [hidden]" in said


def test_events_are_numbered_and_unknown_links_cause_a_warning(engine: Engine, stores: Path) -> None:
    start = after_task(stores / "crew", 3)
    run = engine.run(request_for(start, stores / "crew", kind="resume"))
    assert [line["seq"] for line in run.lines] == list(range(1, len(run.lines) + 1))
    (first,) = run.of("started")
    assert first["engine"] == "crewai"
    assert first["engine_version"] == start.body["crewai_version"]
    (steps,) = run.of("steps")
    assert [step["action"] for step in steps["steps"]] == ["kept", "kept", "kept", "runs"]
    assert [line["position"] for line in run.of("task_started")] == [4]
    assert ["which outputs these tasks read: 4" in line["message"] for line in run.of("warning")] == [True]


def test_a_deleted_checkpoint_is_named(engine: Engine, model: TestModel, stores: Path) -> None:
    start = saved_in(stores / "crew")[0]
    Path(start.source).unlink()
    run = engine.run(request_for(start, stores / "crew"))
    assert run.end["status"] == "failed"
    assert start.id in run.end["error"]
    assert run.end["traceback"] == ""
    assert model.requests == []


def test_an_engine_that_cannot_fork_is_refused_before_it_is_imported(
    engine: Engine, model: TestModel, stores: Path, tmp_path: Path
) -> None:
    older = tmp_path / "older/crewai-1.14.1.dist-info"
    older.mkdir(parents=True)
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: crewai\nVersion: 1.14.1\n")
    location, before = stores / "crew", marks(stores / "crew")
    start = after_task(location, 2)
    run = engine.run(request_for(start, location), PYTHONPATH=str(older.parent))
    assert run.end["status"] == "failed"
    assert "CrewAI 1.14.1, which cannot fork" in run.end["error"]
    assert "install -U crewai" in run.end["error"]
    assert model.requests == []
    assert written(location, before) == []
