"""Resumes and forks of a real agent."""

from pathlib import Path

import pytest

from tests.engine_runs.checkpoints import is_chain, written
from tests.engine_runs.runs import marks, request_for, saved_in
from tests.runners.conftest import Engine
from viewer.engines.plan import Edits

AGENT = "press_agent:interviewer"


@pytest.mark.parametrize("entry_point", ["", AGENT])
def test_a_finished_agent_is_called_again_only_with_another_input(
    engine: Engine, stores: Path, entry_point: str
) -> None:
    location, before = stores / "agent", marks(stores / "agent")
    start = saved_in(location)[-1]
    engine.completed(request_for(start, location, kind="resume", entry_point=entry_point))
    assert engine.model.requests == []
    assert written(location, before) == []
    edits = Edits(inputs={"messages": "Ask about tea"})
    engine.completed(request_for(start, location, edits=edits, entry_point=entry_point))
    assert len(engine.model.requests) == 1
    assert "Ask about tea" in engine.model.prompts()[0]
    assert "Ask about AI" not in engine.model.prompts()[0]
    new = written(location, before)
    assert is_chain(start.id, new)
    assert {saved.branch for saved in new} == {"try-it"}
