"""The success of a flow's job completes its last checkpoint."""

import uuid
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.jobs.conftest import FAKE_RUNNERS, status
from viewer.engines.runner_protocol import LocationTarget
from viewer.host.jobs.following import ensure_finished
from viewer.host.locations.importing import import_location
from viewer.launching.start import start_run
from viewer.models import Location, Project
from viewer.records.runner_requests import request_for_run


@pytest.mark.parametrize(("end", "last"), [("succeeded", "3/3"), ("failed", "3 done")])
def test_the_last_checkpoint_of_a_succeeded_flow_is_complete(
    end: str, last: str, location: Location, project: Project, settings: Settings
) -> None:
    settings.JOB_RUNNERS = {"crewai": FAKE_RUNNERS / "checkpoints/writes_a_flow.py"}
    Path(project.folder, "end").write_text(end)
    folder = LocationTarget(path=location.path, store_kind="json")
    request = request_for_run(folder, "flow", "ArticleFlow", "press:ArticleFlow", {})
    job = start_run(location, project, request, idempotency_key=uuid.uuid4())
    ensure_finished(job)
    assert status(job) == end
    # It stays complete after another import.
    import_location(location)
    rows = location.checkpoints.select_related("run").order_by("row")
    assert [row.progress for row in rows] == ["1/3", "2/3", last]
