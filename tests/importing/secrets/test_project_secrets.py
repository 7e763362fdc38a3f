"""The values of a project's environment file are never stored or shown."""

import base64
import errno
import json
import os
import shutil
import sys
from io import StringIO
from pathlib import Path
from urllib.parse import quote

import pytest
from django.core import serializers
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.real_stores import write_checkpoint
from viewer.host import project_secrets
from viewer.host.jobs.events import redactor_of
from viewer.host.locations import sources
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location, import_one, redact_stored
from viewer.host.locations.sources import unredacted_source
from viewer.host.project_secrets import redact_jobs_again
from viewer.host_requests import HideProjectSecrets, ask
from viewer.models import Checkpoint, Job, JobEvent, Location, Problem, Project, Question, Run
from viewer.records.bodies import stored_bytes
from viewer.records.bucket import BucketAway
from viewer.redaction.known_secrets import known_secrets
from viewer.redaction.names import secrets_of

# No rule recognises it as a secret.
VALUE = "blue whale (north)"
NUMBER = "40815162342"

pytestmark = pytest.mark.django_db


@pytest.fixture
def project(tmp_path: Path) -> Project:
    environment = tmp_path / "project" / ".env"
    environment.parent.mkdir()
    environment.write_text(
        f"SERVICE_TOKEN='{VALUE}'\nCUSTOMER_SECRET={NUMBER}\nMODEL=gpt-4o-mini\nDEBUG=true\n"
    )
    return Project.objects.create(
        folder=str(environment.parent), interpreter="/bin/true", environment_file=str(environment)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten checkpoints with the value in their texts, names and inputs, in each of its forms."""
    folder = tmp_path / "checkpoints"
    for number in range(10):
        held = {
            "plain": f"It is {VALUE}!",
            "quoted": quote(VALUE),
            "json": json.dumps({"again": json.dumps({VALUE: f'"{VALUE}"'})}),
            "base64": base64.b64encode(f"user:{VALUE}".encode()).decode(),
            "number": int(NUMBER),
            VALUE: ["a name"],
            "model": "gpt-4o-mini",
        }
        write_checkpoint(
            folder,
            f"20260101T00000{number}_0000000{number}",
            branch=f"fork/{VALUE}" if number > 7 else "main",
            inputs=held,
        )
    return folder


def everything_stored() -> str:
    rows = [row for model in (Location, Run, Checkpoint, Problem) for row in model.objects.all()]
    bodies = [stored_bytes(checkpoint).decode() for checkpoint in Checkpoint.objects.all()]
    return str(serializers.serialize("json", rows)) + "".join(bodies)


def found_in(text: str) -> list[str]:
    forms = (
        VALUE,
        quote(VALUE),
        quote(VALUE, safe=""),
        NUMBER,
        base64.b64encode(b"user:" + VALUE.encode()).decode()[8:-4],
    )
    return [form for form in forms if form in text]


def imported(folder: Path, project: Project | None) -> Location:
    location = open_location(folder)
    location.project = project
    location.save()
    import_location(location)
    assert location.checkpoints.count() == 10
    return location


def test_no_import_stores_a_value_of_the_environment_file(folder: Path, project: Project) -> None:
    imported(folder, project)
    stored = everything_stored()
    assert found_in(stored) == []
    assert stored.count("gpt-4o-mini") >= 10 and "[redacted]" in stored


def test_nothing_is_imported_while_the_system_cannot_read_the_environment_file(
    folder: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptors(_path: str) -> tuple[str, ...]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    location = open_location(folder)
    location.project = project
    location.save()
    with monkeypatch.context() as busy:
        busy.setattr(project_secrets, "secrets_at", no_descriptors)
        summary = import_location(location)
        assert "Too many open files" in str(summary.read_error) and not location.checkpoints.exists()
    assert import_location(location).added == 10 and found_in(everything_stored()) == []


def test_a_location_whose_copies_are_away_keeps_no_other_from_being_redacted(
    folder: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(location: Location) -> None:
        asked.append(location)
        raise BucketAway("bucket.away", bucket="s3://copies")

    asked = list[Location]()
    locations = [imported(shutil.copytree(folder, tmp_path / name), project) for name in ("one", "two")]
    monkeypatch.setattr(sources, "redact_location_again", away)
    ask(HideProjectSecrets(project.pk))
    assert asked == locations


def test_importing_one_checkpoint_of_a_job_redacts_it(folder: Path, project: Project) -> None:
    location = imported(folder, project)
    path = write_checkpoint(folder, "20260101T000100_00000100", said=VALUE)
    import_one(location, str(path))
    assert location.checkpoints.count() == 11 and found_in(everything_stored()) == []


def test_no_page_shows_it(folder: Path, project: Project, reader: Client) -> None:
    location = imported(folder, project)
    run = location.runs.first()
    assert run is not None
    shown = {
        "location": reader.get(location.get_absolute_url()).content.decode(),
        "run": reader.get(run.get_absolute_url()).content.decode(),
    }
    for checkpoint in location.checkpoints.all():
        shown[f"panel {checkpoint.pk}"] = reader.get(
            reverse("checkpoint", args=[checkpoint.pk])
        ).content.decode()
        raw = reader.get(reverse("checkpoint-raw", args=[checkpoint.pk]))
        shown[f"raw {checkpoint.pk}"] = b"".join(raw).decode()
        out = StringIO()
        call_command("checkpoints", "info", unredacted_source(checkpoint).source, "--json", stdout=out)
        shown[f"info {checkpoint.pk}"] = out.getvalue()
    assert {name: found for name, text in shown.items() if (found := found_in(text))} == {}


def test_rows_stored_before_the_project_was_known_are_redacted(folder: Path, project: Project) -> None:
    location = imported(folder, None)
    assert set(found_in(everything_stored())) >= {VALUE, NUMBER}
    location.project = project
    location.save()
    redact_stored(location)
    assert found_in(everything_stored()) == []
    # The rows still match the files: only those with the value in their names are read again.
    assert import_location(location).pruned == 0
    assert location.checkpoints.count() == 10 and found_in(everything_stored()) == []


def test_the_next_import_applies_a_changed_environment_file(folder: Path, project: Project) -> None:
    environment = Path(project.environment_file)
    text = environment.read_text()
    environment.write_text("MODEL=gpt-4o-mini\n")
    location = imported(folder, project)
    assert VALUE in everything_stored()
    pruned = next(folder.rglob("*_00000003_*"))
    pruned.unlink()
    environment.write_text(text)
    os.utime(environment, (1, 1))
    import_location(location)
    assert location.checkpoints.filter(state=Checkpoint.State.PRUNED).count() == 1
    assert found_in(everything_stored()) == []


def test_an_interrupted_redaction_starts_over(
    folder: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = imported(folder, None)
    before = location.secrets_digest
    location.project = project
    location.save()
    monkeypatch.setattr("viewer.host.project_secrets.BATCH", 3)
    with monkeypatch.context() as broken:
        broken.setattr("viewer.host.project_secrets.redact_rows", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            redact_stored(location)
    assert Location.objects.get().secrets_digest == before
    redact_stored(location)
    assert found_in(everything_stored()) == [] and VALUE not in Location.objects.get().secrets_digest


def test_job_events_are_redacted_and_so_are_those_of_earlier_jobs(folder: Path, project: Project) -> None:
    location = imported(folder, project)
    events = {
        "error": f"cannot reach {VALUE}",
        VALUE: quote(VALUE),
        "code": int(NUMBER),
        "model": "gpt-4o-mini",
    }
    assert found_in(json.dumps(redactor_of(project)(events))) == []
    job = Job.objects.create(
        kind=Job.Kind.RUN,
        location=location,
        project=project,
        status=Job.Status.FAILED,
        result=VALUE,
        error=f"failed at {VALUE}",
        traceback=f"at {VALUE}",
        log_end=VALUE,
        request={"inputs": {"a": VALUE}},
    )
    JobEvent.objects.create(job=job, seq=1, kind="text", at=timezone.now(), data={"text": f"so {VALUE}"})
    Question.objects.create(job=job, number=1, kind="text_input", prompt=VALUE, answer=VALUE)
    redact_jobs_again(project)
    rows = [*Job.objects.all(), *JobEvent.objects.all(), *Question.objects.all(), *Project.objects.all()]
    text = str(serializers.serialize("json", rows))
    assert found_in(text) == [] and "failed at [redacted]" in text


def test_confirming_a_project_redacts_stored_rows(folder: Path, project: Project, runner: Client) -> None:
    location = imported(folder, None)
    interpreter = Path(project.folder) / ".venv/bin/python"
    interpreter.parent.mkdir(parents=True)
    interpreter.symlink_to(sys.executable)
    sent = {
        "folder": project.folder,
        "interpreter": str(interpreter),
        "environment_file": project.environment_file,
        "entry_points": [],
        "other_entry_points": "news.flow:Desk",
    }
    answer = runner.post(reverse("project", args=[location.uid]), sent)
    assert answer.status_code == 302
    assert found_in(everything_stored()) == []


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("SERVICE_TOKEN", "bluewhale-north", True),
        ("PIN_SECRET", "48151", True),
        ("ANYTHING", "k9Xw2mQz81", True),
        ("WEBHOOK", "https://me:hunter22@host/x", True),
        ("DEBUG", "true", False),
        ("PORT", "8000", False),
        ("RETRIES", "0", False),
        ("MODEL", "gpt-4o", False),
        ("OPENAI_MODEL_NAME", "gpt-4o-mini-2024-07-18", False),
        ("OPENAI_API_BASE", "https://api.example.com/v1", False),
        ("HOME_FOLDER", "/srv/data/v2-project", False),
        ("STAGE", "production", False),
        ("REGION", "eu-central-1", False),
        ("STARTED", "2026-01-01T10:00:00Z", False),
        ("OPENAI_API_KEY", "NA", False),
        ("API_TOKEN", "changeme", False),
    ],
)
def test_values_of_the_environment_file_that_are_secrets(name: str, value: str, is_secret: bool) -> None:
    assert bool(secrets_of({name: value})) == is_secret


def test_secrets_are_found_in_each_form_and_not_in_a_repr() -> None:
    known = known_secrets(('a"b\\c/dé 1',))
    for text in (
        'a"b\\c/dé 1',
        json.dumps('a"b\\c/dé 1'),
        json.dumps(json.dumps('a"b\\c/dé 1')),
        quote('a"b\\c/dé 1'),
        base64.b64encode('xa"b\\c/dé 1y'.encode()).decode(),
    ):
        assert known.is_in(text.encode()), text
    assert "dé" not in repr(known)
