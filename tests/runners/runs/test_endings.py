"""The ends of runs and the events before them."""

import signal
from pathlib import Path

from tests.engine_runs.checkpoints import after_method, after_task, crew_after, is_chain, written
from tests.engine_runs.runs import KEY, request_for, saved_in
from tests.engines.test_spans import spans_in
from tests.runners.conftest import Engine
from tests.runners.resuming.test_crews import CREW
from viewer.engines.plan import Edits


def test_a_repeated_panic_ends_the_run_with_a_message(engine: Engine, stores: Path) -> None:
    start = after_method(stores / "flow", "outline")
    request = request_for(start, stores / "flow", entry_point="press_restless:RestlessFlow")
    run = engine.run(request, RESTLESS="1000")
    assert run.status == 1
    assert run.end["status"] == "failed"
    assert "kept changing while it was written" in run.end["error"]


def test_code_that_exits_the_program_ends_the_run_with_a_message(cold_engine: Engine, stores: Path) -> None:
    start = after_method(stores / "flow", "outline")
    request = request_for(start, stores / "flow", entry_point="press_restless:LeavingFlow")
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
    location, start, before = crew_after(stores, 2)
    run = engine.run(request_for(start, location), OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert run.end["status"] == "failed"
    assert "onnect" in run.end["error"]
    assert "Traceback" in run.end["traceback"]
    # The agent tries again before the task fails.
    assert len(run.of("task_retried")) == 2
    assert is_chain(start.id, written(location, before))


def test_an_output_that_a_guardrail_refuses_is_reported_as_retried(engine: Engine, stores: Path) -> None:
    location, start, before = crew_after(stores, 2)
    run = engine.completed(request_for(start, location, entry_point="press_restless:guarded"), RESTLESS="2")
    retried = run.of("task_retried")
    assert [(one["position"], one["error"]) for one in retried] == [(3, "too loud")] * 2
    assert [one["position"] for one in run.of("task_completed")] == [3, 4]
    assert len(run.of("model_completed")) == 4
    # The record of a checkpoint has the attempts as well.
    spans = spans_in(next(saved.body for saved in written(location, before) if saved.done == 3))
    attempts = [span for span in spans if span.kind == "attempt"]
    assert [(one.error, one.status) for one in attempts] == [("too loud", "failed")] * 2
    assert {one.parent for one in attempts} == {[span for span in spans if span.kind == "unit"][-1].id}


def test_an_interrupted_run_is_cancelled_and_keeps_its_checkpoints(cold_engine: Engine, stores: Path) -> None:
    location, start, before = crew_after(stores, 2)
    run = cold_engine.interrupt(request_for(start, location), signal.SIGINT)
    assert (run.end["status"], run.status) == ("cancelled", 130)
    assert run.lines[-1]["at"] - run.lines[-2]["at"] < 60  # although its model never answers
    new = written(location, before)
    assert [line["id"] for line in run.of("checkpoint")] == [saved.id for saved in new]
    assert is_chain(start.id, new)


def test_a_run_that_ignores_an_interrupt_ends_at_the_terminate_signal(engine: Engine, stores: Path) -> None:
    start = after_method(stores / "flow", "outline")
    request = request_for(start, stores / "flow", entry_point="press_restless:DeafFlow")
    run = engine.interrupt(request, signal.SIGINT, signal.SIGTERM)
    assert run.end["status"] == "cancelled"
    assert run.status == 143


def test_streamed_text_and_tokens_are_reported_as_they_arrive(engine: Engine, stores: Path) -> None:
    start = after_task(stores / "crew", 3)
    run = engine.completed(request_for(start, stores / "crew", entry_point=CREW), PRESS_STREAMS="1")
    text = "".join(line["text"] for line in run.of("text"))
    assert run.end["result"].strip() == text.strip()
    assert [line["total_tokens"] for line in run.of("model_completed")] == [12]
    assert {line["agent"] for line in run.of("text")} == {"Writer"}


def test_a_key_is_in_no_event_even_if_the_run_prints_it(engine: Engine, stores: Path) -> None:
    start = after_task(stores / "crew", 2)
    run = engine.completed(request_for(start, stores / "crew", edits=Edits(inputs={"topic": KEY})))
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


def test_a_deleted_checkpoint_is_named(engine: Engine, stores: Path) -> None:
    start = saved_in(stores / "crew")[0]
    Path(start.source).unlink()
    run = engine.run(request_for(start, stores / "crew"))
    assert run.end["status"] == "failed"
    assert start.id in run.end["error"]
    assert run.end["traceback"] == ""
    assert engine.model.requests == []


def test_an_engine_that_cannot_fork_is_refused_before_it_is_imported(
    engine: Engine, stores: Path, tmp_path: Path
) -> None:
    older = tmp_path / "older/crewai-1.14.1.dist-info"
    older.mkdir(parents=True)
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: crewai\nVersion: 1.14.1\n")
    location, start, before = crew_after(stores, 2)
    error = engine.refused(request_for(start, location), PYTHONPATH=str(older.parent))
    assert "CrewAI 1.14.1, which cannot fork" in error
    assert "install -U crewai" in error
    assert written(location, before) == []
