"""The status of a run, from its newest checkpoint."""

import json
from pathlib import Path

import pytest

from tests.imported import imported_location
from tests.real_stores import copy_of
from viewer.models import Run

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_crew_whose_tasks_are_all_finished_is_completed_without_a_last_checkpoint(
    tmp_path: Path, is_whole: bool
) -> None:
    """CrewAI writes checkpoints only after tasks, unless other events are chosen."""
    folder = copy_of("1.15.30/json", tmp_path)
    (newest,) = folder.glob("exp-a/*_b537f2f3_*.json")
    body = json.loads(newest.read_text())
    assert body["trigger"] == "task_completed"
    tasks = body["entities"][0]["tasks"]
    assert [task["output"] is not None for task in tasks] == [True, True, False]
    if is_whole:
        tasks[2]["output"] = tasks[1]["output"]
        newest.write_text(json.dumps(body))
    run = imported_location(folder).runs.get()
    assert run.status == (Run.Status.COMPLETED if is_whole else "")
