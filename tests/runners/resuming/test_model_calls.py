"""A dry run of a crew whose model answers come from its record: no model is called and no key is needed."""

from pathlib import Path
from typing import Any

import pytest

from tests.engine_runs.checkpoints import after_task
from tests.engine_runs.runs import request_for
from tests.imported import imported_location
from tests.runners.conftest import Engine
from viewer.engines.recorded_calls import ModelChoice
from viewer.launching.preview import preview_launch
from viewer.launching.requests import ForkRequest
from viewer.records.bodies import stored_contents

pytestmark = pytest.mark.django_db


@pytest.fixture
def fork(stores: Path, settings: Any) -> dict[str, Any]:
    """Return a fork after two of three tasks, which uses the recorded answers."""
    settings.CHECKPOINT_ROOTS = [stores]
    start = after_task(stores / "plain", 2)
    row = imported_location(stores / "plain").checkpoints.get(checkpoint_id=start.id)
    preview = preview_launch(
        ForkRequest(
            checkpoint=row,
            contents=stored_contents(row),
            project=None,
            branch="what-if",
            entry_point="press_crew:make_crew",
            model_calls=ModelChoice.RECORDED,
        )
    )
    request = request_for(start, stores / "plain", entry_point="press_crew:make_crew")
    return request | {"options": {"model_calls": preview.options["model_calls"]}}


def test_recorded_answers_repeat_a_run_without_a_call(
    engine: Engine, stores: Path, fork: dict[str, Any]
) -> None:
    ended = engine.completed(fork, OPENAI_API_KEY="")
    assert ended.of("model_answered") and engine.model.requests == []
    last = after_task(stores / "plain", 4)
    assert ended.end["result"] == last.tasks[-1]["output"]["raw"]


def test_a_call_with_other_messages_stops_the_run(engine: Engine, fork: dict[str, Any]) -> None:
    fork["inputs"] = {"topic": "something else"}
    stopped = engine.run(fork, OPENAI_API_KEY="")
    assert "The run stopped at a call of" in stopped.end["error"], stopped.end
    assert engine.model.requests == []
