"""A real flow that waits for a person can be stopped, and asks again when it is resumed."""

import signal
from pathlib import Path

import pytest

from tests.runners import children
from tests.runners.children import KEY, new_run_request, request_for, saved_in
from tests.runners.conftest import Engine
from tests.runners.model_server import ModelServer

pytestmark = pytest.mark.engine
FLOW = {"entity": "flow", "entry_point": "press_asking:CuriousFlow", "kind": "resume"}


def test_a_flow_is_cancelled_while_it_waits_and_asks_again(
    engine: Engine, model: ModelServer, tmp_path: Path
) -> None:
    states = {"PRESS_STATES": str(tmp_path / "states.db")}
    children.record(engine.python, model, tmp_path, "curious", "json", "./curious")
    location = tmp_path / "curious"
    model.forget()
    request = request_for(saved_in(location)[0], location, **FLOW)  # type: ignore[arg-type]
    folder = engine.job()
    with children.started(engine.python, model, folder, request, **states) as child:
        children.asked(folder, child, 1)
        child.send_signal(signal.SIGINT)
        run = children.ended(folder, child, 30)
    assert run.end["status"] == "cancelled"
    assert not run.of("answered")
    assert model.requests == []
    folder = engine.job()
    with children.started(engine.python, model, folder, request, **states) as child:
        run = children.answered(folder, child, [f"Fine with {KEY}"])
    assert run.end["status"] == "succeeded", run.end
    assert [question["prompt"] for question in run.of("question")] == ["What of it?"]
    assert model.prompts() == [f"Close <>: Fine with {KEY}"]


def test_a_password_is_never_asked_for(engine: Engine, model: ModelServer, tmp_path: Path) -> None:
    run = engine.run(new_run_request(tmp_path / "store", "flow", "press_input:PasswordFlow", {}))

    assert run.end["status"] == "failed"
    assert "environment file" in run.end["error"]
    assert not run.of("question")


def test_a_preflight_asks_nobody(engine: Engine, tmp_path: Path) -> None:
    request = new_run_request(tmp_path / "store", "crew", "press_input:crew_of_a_word", {})
    run = engine.run({**request, "kind": "preflight"})

    assert run.end["status"] == "failed"
    assert "The run will ask you" in run.end["error"]
    assert not run.of("question")
