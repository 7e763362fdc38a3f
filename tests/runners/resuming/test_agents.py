"""Resumes and forks of a real agent."""

from pathlib import Path

import pytest

from tests.engine_runs.checkpoints import is_chain, written
from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import marks, request_for, saved_in
from tests.runners.conftest import Engine
from viewer.engines.plan import Edits

pytestmark = pytest.mark.engine
AGENT = "press_agent:interviewer"


def test_an_interrupted_agent_gets_the_same_messages_again(
    engine: Engine, model: TestModel, stores: Path
) -> None:
    location, before = stores / "agent", marks(stores / "agent")
    start = saved_in(location)[0]
    run = engine.run(request_for(start, location, entity="agent", kind="resume"))
    assert run.end["status"] == "succeeded", run.end
    (prompt,) = model.prompts()
    assert "Ask about AI" in prompt
    assert "Resume execution" not in prompt
    assert is_chain(start.id, written(location, before))


@pytest.mark.parametrize("entry_point", ["", AGENT])
def test_a_finished_agent_is_called_again_only_with_another_input(
    engine: Engine, model: TestModel, stores: Path, entry_point: str
) -> None:
    location, before = stores / "agent", marks(stores / "agent")
    start = saved_in(location)[-1]
    repeated = engine.run(
        request_for(start, location, entity="agent", kind="resume", entry_point=entry_point)
    )
    assert repeated.end["status"] == "succeeded"
    assert model.requests == []
    assert written(location, before) == []
    edits = Edits(inputs={"messages": "Ask about tea"})
    run = engine.run(request_for(start, location, entity="agent", edits=edits, entry_point=entry_point))
    assert run.end["status"] == "succeeded", run.end
    assert len(model.requests) == 1
    assert "Ask about tea" in model.prompts()[0]
    assert "Ask about AI" not in model.prompts()[0]
    new = written(location, before)
    assert is_chain(start.id, new)
    assert {saved.branch for saved in new} == {"try-it"}
