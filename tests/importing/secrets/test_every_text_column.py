"""No column keeps a secret that became known after the row was stored."""

from pathlib import Path

import pytest
from django.apps import apps
from django.db import models
from django.utils import timezone

from tests.imported import imported_location
from tests.real_stores import write_checkpoint
from viewer.host.locations.importing import redact_stored
from viewer.host.project_secrets import redact_jobs_again
from viewer.messages.message import plain_text
from viewer.models import (
    Annotation,
    AnnotationVersion,
    Checkpoint,
    Collection,
    CollectionItem,
    Comment,
    Job,
    JobEvent,
    Location,
    MutedRun,
    PreflightCheck,
    Problem,
    Project,
    Question,
    Run,
    ShareLink,
    Sweep,
)
from viewer.records.accounts import teammate

SECRET = "blue whale (north)"

# The columns that are not redacted, and why.
SETTINGS = "what a person set, or what the server's own files are called"
DIGEST = "a digest or a fingerprint"
KEPT = {
    "ApiToken": "a digest, and what its person calls it",
    "AcceptedEffect": "compared with what a runner computes; never holds a value of a checkpoint",
    "AttemptCount": DIGEST,
    "AuditEntry": "names and ids that are redacted when they are stored; the database refuses changes",
    "BucketObject": "a random key, and a digest of what is redacted",
    "DayLimits": SETTINGS,
    "Host": SETTINGS,
    "HostRequest": "deleted when its reply was read",
    "IdempotencyKey": "a program's own text, and a digest",
    "Job.kept_keys": "names of variables, and addresses without passwords",
    "Location": SETTINGS,
    "Notification": "names of rows, addresses of pages, and codes of ours",
    "NotificationTarget": SETTINGS,
    "Pool": SETTINGS,
    "PoolMember": "digests, and paths that a person typed",
    "Project": SETTINGS,
    "ReaderSettings": SETTINGS,
    "RecordedCode": "digests and the names of files, of which those with a secret are left out",
    "Run.branch_statuses": "codes of ours",
    "Run.newest_status": "a code of ours",
    "SavedSearch": "seen by the person who wrote it only",
    "SearchEntry": "not found until the index has been built again",
    "SearchFacet": "not found until the index has been built again",
    "SearchedCheckpoint": DIGEST,
    "SearchedLocation": DIGEST,
    "SearchedRun": DIGEST,
    "Team": "an administrator's name for people",
    "Checkpoint.ended_as": "a code of ours",
    "Checkpoint.fingerprint": DIGEST,
    "StoredCopy.fingerprint": DIGEST,
    "StoredCopy.source_digest": DIGEST,
    "Invitation.token_hash": DIGEST,
    "Job.isolation": "codes of ours, numbers, the system's names and allowed hosts",
    "Job.limits": SETTINGS,
    "Job.queued_in": "identifies the database",
    "Job.request_digest": DIGEST,
    "JobEvent.kind": "a code of ours",
    "PreflightCheck.commit": "the id of a commit",
    "PreflightCheck.entity": "the name of an entry point's code",
    "PreflightCheck.entry_point": "the name of an entry point's code",
    "PreflightCheck.fingerprint": DIGEST,
    "PreflightCheck.store_kind": "a code of ours",
    "Problem.fingerprint": DIGEST,
    "Problem.kind": "a code of ours",
    "Question.kind": "a code of ours",
    "Run.copies_digest": DIGEST,
    "Run.indexed_fingerprint": DIGEST,
    "Run.listed_state": "emptied with the list of its checkpoints",
    "Run.inputs": "emptied, and read again from the redacted copies",
    "ShareLink.locations": "keys of rows",
    "ShareLink.token_hash": DIGEST,
    "Sweep.limits": SETTINGS,
    "Sweep.score": SETTINGS,
}

pytestmark = pytest.mark.django_db


def text_columns() -> list[tuple[type[models.Model], str]]:
    """Every column that may hold a secret."""
    return [
        (model, field.name)
        for model in apps.get_app_config("viewer").get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, models.CharField | models.TextField | models.JSONField)
        and not field.choices
        and model.__name__ not in KEPT
        and f"{model.__name__}.{field.name}" not in KEPT
    ]


def write_into(row: models.Model, name: str) -> None:
    """Add the secret to one column."""
    value = getattr(row, name)
    field = row._meta.get_field(name)
    if isinstance(field, models.JSONField) and not hasattr(value, "code"):
        value = {"text": f"so {SECRET}"} if isinstance(value, dict) else [[f"so {SECRET}", 1]]
    elif isinstance(field, models.JSONField) or type(field).__module__.startswith("viewer"):
        value = plain_text(f"so {SECRET}")
    else:
        # PostgreSQL refuses a text that is longer than its column.
        value = f"{value}so {SECRET}"[-(getattr(field, "max_length", None) or 0) :]
    type(row)._default_manager.filter(pk=row.pk).update(**{name: value})


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / ".env").write_text(f"SERVICE_TOKEN='{SECRET}'\n")
    return Project.objects.create(
        folder=str(tmp_path), interpreter="/bin/true", environment_file=str(tmp_path / ".env")
    )


@pytest.fixture
def location(tmp_path: Path, project: Project) -> Location:
    """A location with two checkpoints, and a row of each model that holds texts."""
    folder = tmp_path / "checkpoints"
    for number in range(2):
        write_checkpoint(folder, f"20260101T00000{number}_0000000{number}")
    location = imported_location(folder)
    run = location.runs.get()
    now = timezone.now()
    Annotation.objects.create(location_uid=location.uid, run_key=run.key, label_text=",tea,")
    AnnotationVersion.objects.create(
        location_uid=location.uid, run_key=run.key, branch=run.branch_names[0], changed_at=now
    )
    CollectionItem.objects.create(
        collection=Collection.objects.create(name="teas"), kind="checkpoint", location_uid=location.uid
    )
    Comment.objects.create(location_uid=location.uid, run_key=run.key)
    MutedRun.objects.create(user=teammate("maker"), location_uid=location.uid, run_key=run.key)
    Problem.objects.create(location=location, source_key="b.json", fingerprint="1", reason=plain_text("no"))
    sweep = Sweep.objects.create(name="tone")
    job = Job.objects.create(
        kind="run", location=location, project=project, sweep=sweep, status="failed", error=plain_text("no")
    )
    JobEvent.objects.create(job=job, seq=1, kind="text", at=now)
    Question.objects.create(job=job, number=1, kind="text_input")
    PreflightCheck.objects.create(project=project, status="failed", error=plain_text("no"), ended_at=now)
    ShareLink.objects.create(
        token_hash="1",
        kind="run",
        target=str(run.uid),
        title="news",
        locations=[location.pk],
        made_by=teammate("maker", "run"),
        expires_at=now,
    )
    return location


def test_every_column_loses_it(location: Location, project: Project) -> None:
    rows = [(model._default_manager.first(), name) for model, name in text_columns()]
    for row, name in rows:
        assert row is not None, f"no row has {name}"
        write_into(row, name)
    location.project = project
    location.save()
    redact_stored(location)
    redact_jobs_again(project)
    after = {}
    for row, name in rows:
        assert row is not None
        row.refresh_from_db(fields=[name])
        after[f"{type(row).__name__}.{name}"] = str(getattr(row, name))
    assert {name: text for name, text in after.items() if SECRET in text or "[redacted]" not in text} == {}


def test_an_annotation_stays_with_its_subject(location: Location, project: Project) -> None:
    run = location.runs.get()
    key = f"{run.key} {SECRET}"
    Run.objects.filter(pk=run.pk).update(key=key)
    Checkpoint.objects.filter(run=run).update(run_key=key, branch=SECRET)
    Annotation.objects.update(run_key=key, branch=SECRET)
    location.project = project
    location.save()
    redact_stored(location)
    run.refresh_from_db()
    annotation = Annotation.objects.get()
    assert (annotation.run_key, annotation.branch) == (run.key, run.branch_names[0])


def test_each_exception_names_a_column() -> None:
    found = {
        name
        for model in apps.get_app_config("viewer").get_models()
        for name in (model.__name__, *(f"{model.__name__}.{field.name}" for field in model._meta.fields))
    }
    assert set(KEPT) <= found
