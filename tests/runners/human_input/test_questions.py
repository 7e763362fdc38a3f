"""Questions of real flows are asked through the spool, and again by a resume after a cancel."""

import signal
from pathlib import Path

from tests.engine_runs import runs as children
from tests.engine_runs.runs import KEY, new_run_request, request_for, saved_in
from tests.runners.conftest import Engine

FLOW = {"entry_point": "press_asking:CuriousFlow", "kind": "resume"}


def test_a_flow_cancelled_at_a_question_asks_again_when_resumed(engine: Engine, tmp_path: Path) -> None:
    states = {"PRESS_STATES": str(tmp_path / "states.db")}
    children.record(engine.python, engine.model, tmp_path, "curious", "json", "./curious")
    location = tmp_path / "curious"
    engine.model.reset()
    request = request_for(saved_in(location)[0], location, **FLOW)  # type: ignore[arg-type]
    folder = engine.job()
    with children.started(engine.python, engine.model, folder, request, **states) as child:
        children.asked(folder, child, 1)
        child.send_signal(signal.SIGINT)
        run = children.ended(folder, child, 30)
    assert run.end["status"] == "cancelled"
    assert not run.of("answered")
    assert engine.model.requests == []
    run = engine.answered(request, f"Fine with {KEY}", **states)
    assert [question["prompt"] for question in run.of("question")] == ["What of it?"]
    assert engine.model.prompts() == [f"Close <>: Fine with {KEY}"]


def test_a_password_is_never_asked_for(engine: Engine, tmp_path: Path) -> None:
    run = engine.run(new_run_request(tmp_path / "store", "flow", "press_input:PasswordFlow", {}))

    assert run.end["status"] == "failed"
    assert "environment file" in run.end["error"]
    assert not run.of("question")


def test_a_preflight_check_asks_no_questions(engine: Engine, tmp_path: Path) -> None:
    request = new_run_request(tmp_path / "store", "crew", "press_input:crew_of_a_word", {})
    run = engine.run({**request, "kind": "preflight"})

    assert run.end["status"] == "failed"
    assert "The run will ask you" in run.end["error"]
    assert not run.of("question")


def test_a_flow_asks_its_question_and_for_feedback(engine: Engine, tmp_path: Path) -> None:
    request = new_run_request(tmp_path / "store", "flow", "press_asking:CuriousFlow", {})
    run = engine.answered(request, "bees", "Fine", PRESS_STATES=str(tmp_path / "states.db"))
    assert [(one["kind"], one["prompt"]) for one in run.of("question")] == [
        ("text_input", "Which word?"),
        ("human_feedback", "What of it?"),
    ]
    assert engine.model.prompts() == ["Close <bees>: Fine"]


def test_a_provider_that_would_pause_the_flow_is_answered(engine: Engine, tmp_path: Path) -> None:
    request = new_run_request(tmp_path / "store", "flow", "press_asking:ReviewFlow", {})
    run = engine.answered(request, "Approved", PRESS_STATES=str(tmp_path / "states.db"))
    (question,) = run.of("question")
    assert question["context"]["choices"] == ["rejected", "approved"]
    # No model was asked for the outcome of the answer.
    first, draft, publish = engine.model.prompts()
    assert (first, draft.split()[0], publish.split()[0]) == ("Collect", "Draft", "Publish")
