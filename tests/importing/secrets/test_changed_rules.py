"""What an earlier version stored is redacted again with the rules of this one."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from tests.real_stores import write_checkpoint
from viewer.host.locations.adding import open_location
from viewer.host.locations.completing import describe_runs
from viewer.host.locations.importing import import_location
from viewer.host.project_secrets import redact_all_jobs_again, redact_jobs_again
from viewer.models import Annotation, Checkpoint, Job, Location, Project, StoredCopy
from viewer.records.bodies import stored_bytes
from viewer.stores.protocol import compressed

# The rules find it by its beginning.
TOKEN = f"ghp_{'Ab3dE5fG7h' * 4}"[:40]
CLEAN = "I asked the desk for the token of the archive."

pytestmark = pytest.mark.django_db


@pytest.fixture
def location(tmp_path: Path) -> Location:
    """Return a location as a version stored it whose rules did not know the token."""
    folder = tmp_path / "checkpoints"
    for number in range(3):
        write_checkpoint(folder, f"20260101T00000{number}_0000000{number}", inputs={"said": CLEAN})
    location = open_location(folder)
    import_location(location)
    for copy in StoredCopy.objects.all()[:2]:
        body = stored_bytes(copy.checkpoint)
        assert CLEAN.encode() in body
        copy.data = compressed(body.replace(CLEAN.encode(), f"{CLEAN} {TOKEN}".encode()))
        copy.save()
    run = location.runs.get()
    Annotation.objects.create(location_uid=location.uid, run_key=run.key, note=f"as {TOKEN}")
    location.runs.update(inputs=[["said", TOKEN]])
    Location.objects.update(secrets_digest=".of other rules")
    return Location.objects.get()


def bodies() -> dict[int, Any]:
    return {one.pk: json.loads(stored_bytes(one)) for one in Checkpoint.objects.all()}


def test_copies_notes_and_inputs_are_redacted_again_and_nothing_else_changes(
    location: Location, reader: Client
) -> None:
    before = bodies()
    call_command("import_checkpoints", location.path)
    after = bodies()
    assert after != before and str(after) == str(before).replace(TOKEN, "[redacted]")
    assert Annotation.objects.get().note == "as [redacted]"
    describe_runs(location)
    run = location.runs.get()
    page = reader.get(run.get_absolute_url()).content.decode()
    assert "as [redacted]" in page
    assert run.inputs and TOKEN not in f"{run.inputs}{page}"


def test_it_happens_once(location: Location) -> None:
    import_location(location)
    digest = Location.objects.get().secrets_digest
    StoredCopy.objects.update(data=compressed(f'"{TOKEN}"'.encode()))
    import_location(location)
    assert Location.objects.get().secrets_digest == digest
    assert TOKEN in str(bodies())


def test_ended_jobs_are_redacted_again(location: Location, tmp_path: Path) -> None:
    project = Project.objects.create(folder=str(tmp_path), interpreter=sys.executable)
    job = Job.objects.create(kind=Job.Kind.FORK, location=location, project=project, branch="what-if")
    Job.objects.filter(pk=job.pk).update(status=Job.Status.FAILED, log_end=f"using {TOKEN}")
    redact_jobs_again(project, for_rules=False)
    assert Job.objects.get(pk=job.pk).log_end == f"using {TOKEN}"
    redact_all_jobs_again()
    assert Job.objects.get(pk=job.pk).log_end == "using [redacted]"
