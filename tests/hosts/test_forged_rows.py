"""What a process that can only write rows makes a host read, write and run: nothing outside its folders."""

import json
import os
import shutil
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from tests.real_stores import copy_of
from viewer.cli.finding import project_for
from viewer.host import routing
from viewer.host.answers import answer
from viewer.host.jobs.files import storage_of
from viewer.host.jobs.following import ensure_finished
from viewer.host.jobs.spool import Spool
from viewer.host.jobs.starting import request_of
from viewer.host.locations.completing import find_ends
from viewer.host.locations.importing import import_location
from viewer.host.permitted import PERMITTED_FILE, _permitted_here, checked, permit
from viewer.host.project_secrets import redact_all_jobs_again
from viewer.host.worker import register
from viewer.host_requests import (
    CheckCheckpoint,
    CheckProject,
    FindEntryPoints,
    HostAway,
    HostRefusal,
    ImportLocation,
    JobRefused,
    ListCodeChanges,
    ListPrunable,
    NotReadable,
    OpenLocation,
    PermitPaths,
    Prewarm,
    PruneRules,
    ReadBodies,
    ReadBody,
    ReadCodeDifference,
    Redact,
    Request,
    StoredKey,
)
from viewer.models import Checkpoint, Host, Job, Level, Location, Project, RecordedCode, Role
from viewer.records.accounts import teammate
from viewer.records.audit import acting_for

KEY = "sk-proj-abcdefghijklmnopqrstuvwx123456"


def sent(request: Request[Any]) -> Any:
    """Return the reply to a request of another machine."""
    return answer(checked(request))


@dataclass
class Folders:
    """A folder that the host allows, with a location, and one that it does not, with the same and more."""

    allowed: Path
    hidden: Path

    def project(self, host: Host, **values: Any) -> Project:
        """Return a project whose row names hidden paths, as another machine may write it."""
        given = {
            "folder": str(self.hidden),
            "interpreter": sys.executable,
            "environment_file": str(self.hidden / ".env"),
            "entry_points": ["crew:build"],
            "confirmed_at": timezone.now(),
        }
        return Project.objects.create(host=host, **{**given, **values})


@pytest.fixture
def here(transactional_db: None, settings: Settings) -> Host:
    settings.IS_DATABASE_SHARED = True
    (Path(settings.DATA_DIR) / PERMITTED_FILE).unlink(missing_ok=True)
    return register("gpu-1", 4)


@pytest.fixture
def other(here: Host) -> Host:
    return Host.objects.create(name="gpu-2", instance="elsewhere", is_up=True, seen_at=Now())


@pytest.fixture
def folders(tmp_path: Path, settings: Settings) -> Folders:
    found = Folders(tmp_path / "allowed", tmp_path / "hidden")
    for folder in (found.allowed, found.hidden):
        copy_of("1.15.30/json", folder)
        (folder / "crew.py").write_text("def build(): ...\n")
    (found.hidden / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    settings.CHECKPOINT_ROOTS = [found.allowed]
    return found


@pytest.fixture
def location(here: Host, folders: Folders) -> Location:
    """Return the location in the allowed folder, with its project."""
    location = Location.objects.get(pk=sent(OpenLocation(str(folders.allowed / "1.15.30/json"))))
    location.project = folders.project(here, folder=str(folders.allowed), environment_file="")
    location.save()
    import_location(location)
    return location


def hidden_location(host: Host, folders: Folders) -> Location:
    path = folders.hidden / "1.15.30/json"
    return Location.objects.create(host=host, path=str(path), store_kind="json")


def test_a_location_outside_the_allowed_folders_is_not_read(here: Host, folders: Folders) -> None:
    forged = hidden_location(here, folders)
    error = sent(ImportLocation(forged.pk)).read_error
    assert "outside the folders" in str(error) and not Checkpoint.objects.exists()
    # The worker refuses it as well.
    assert import_location(forged).read_error and not Checkpoint.objects.exists()
    with pytest.raises(HostRefusal):
        sent(ListPrunable(forged.pk, PruneRules(days=0)))


@pytest.mark.parametrize("path", ["/", ""])
def test_the_root_of_the_file_system_is_not_opened(here: Host, folders: Folders, path: str) -> None:
    """Without a path, rows would name the folder in which the worker was started."""
    location = Location.objects.create(host=here, path=path, store_kind="json")
    assert "outside the folders" in str(sent(ImportLocation(location.pk)).read_error)
    project = folders.project(here, folder=path, environment_file="")
    with pytest.raises(JobRefused, match="outside the folders"):
        sent(ReadCodeDifference(project.pk, recorded().pk, "crew.py"))
    with pytest.raises(HostRefusal, match="outside the folders"):
        sent(FindEntryPoints("crewai", "/"))


def recorded() -> RecordedCode:
    return RecordedCode.stored({"crew.py": "0" * 40}, "", is_dirty=None, is_complete=True)


def test_a_link_in_an_allowed_folder_leads_nowhere(here: Host, folders: Folders) -> None:
    (folders.allowed / "link").symlink_to(folders.hidden)
    forged = Location.objects.create(
        host=here, path=str(folders.allowed / "link/1.15.30/json"), store_kind="json"
    )
    assert sent(ImportLocation(forged.pk)).read_error and not Checkpoint.objects.exists()


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_checkpoint_outside_its_location_is_not_read(
    location: Location, folders: Folders, is_absolute: bool
) -> None:
    checkpoint = location.checkpoints.latest("pk")
    key = str(folders.hidden / "1.15.30/json" / checkpoint.source_key)
    key = key if is_absolute else os.path.relpath(key, location.path)
    Checkpoint.objects.filter(pk=checkpoint.pk).update(source_key=key)
    with pytest.raises(NotReadable):
        sent(ReadBody(checkpoint.pk))
    assert sent(ReadBodies(location.pk, [checkpoint.pk])) == []
    # A run would read it, and so would the check before it.
    assert location.project
    job = fork(location, checkpoint, location.project)
    ensure_finished(job)
    job.refresh_from_db()
    assert job.status == Job.Status.FAILED and "outside the folders" in str(job.error)
    assert not (Path(job.folder) / "request.json").exists()


def fork(location: Location, checkpoint: Checkpoint, project: Project, person: User | None = None) -> Job:
    source = {"id": checkpoint.checkpoint_id, "source": checkpoint.source}
    target = {"path": location.path, "store_kind": "json"}
    given = {"kind": "fork", "checkpoint": source, "location": target}
    return Job.objects.create(
        kind="fork",
        host=location.host,
        location=location,
        checkpoint=checkpoint,
        project=project,
        requested_by=person,
        branch=str(person or "x"),
        request=given,
    )


def test_a_request_of_a_job_names_no_other_paths_than_its_rows(location: Location, folders: Folders) -> None:
    checkpoint = location.checkpoints.latest("pk")
    assert location.project
    job = fork(location, checkpoint, location.project)
    job.request |= {
        "checkpoint": {"id": "x", "source": str(folders.hidden / "x.json")},
        "location": {"path": str(folders.hidden), "store_kind": "sqlite"},
        "folder": str(folders.hidden),
        "protected": [],
    }
    text = json.dumps(request_of(job))
    assert str(folders.hidden) not in text and checkpoint.source in text


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"environment_file": ""},
        {"folder": "ALLOWED"},
        {"folder": "ALLOWED", "environment_file": "", "interpreter": shutil.which("env")},
    ],
    ids=["all", "folder", "environment file", "program"],
)
def test_no_source_key_or_program_of_a_forged_project_is_used(
    here: Host, location: Location, folders: Folders, values: dict[str, Any]
) -> None:
    values = {name: str(folders.allowed) if one == "ALLOWED" else one for name, one in values.items()}
    forged = folders.project(here, **values)
    code = recorded()
    checkpoint = location.checkpoints.latest("pk")
    requests: list[Request[Any]] = [
        ReadCodeDifference(forged.pk, code.pk, "crew.py"),
        ListCodeChanges(forged.pk, code.pk),
        # Would say whether this is the key.
        Redact(forged.pk, [KEY]),
        CheckProject(forged.pk),
        CheckCheckpoint(checkpoint.pk, forged.pk, "crew:build"),
        Prewarm(forged.pk),
    ]
    for request in requests:
        with pytest.raises(JobRefused, match="outside the folders"):
            sent(request)
    job = fork(location, checkpoint, forged)
    ensure_finished(job)
    job.refresh_from_db()
    assert job.status == Job.Status.FAILED and "outside the folders" in str(job.error)


def test_a_hidden_environment_file_is_no_oracle_for_its_keys(
    here: Host, location: Location, folders: Folders
) -> None:
    """What is redacted in stored rows would show it."""
    Project.objects.update(environment_file=str(folders.hidden / ".env"))
    Checkpoint.objects.update(trigger=KEY)
    assert sent(ImportLocation(location.pk)).read_error
    find_ends(location)
    with pytest.raises(JobRefused):
        sent(StoredKey(location.pk, KEY))
    assert set(Checkpoint.objects.values_list("trigger", flat=True)) == {KEY}


def test_a_forged_project_does_not_keep_the_jobs_of_others_from_redaction(
    here: Host, folders: Folders, location: Location
) -> None:
    folders.project(here)
    own = folders.allowed / ".env"
    own.write_text("TOKEN=violet-harbour-31\n")
    project = folders.project(here, folder=str(folders.allowed), environment_file=str(own))
    job = Job.objects.create(
        kind="fork",
        host=here,
        location=location,
        project=project,
        status="failed",
        result="violet-harbour-31",
    )
    redact_all_jobs_again()
    job.refresh_from_db()
    assert "harbour" not in job.result


def test_a_started_run_is_followed_after_its_folders_are_no_longer_allowed(
    here: Host, location: Location, folders: Folders, settings: Settings
) -> None:
    """With the secrets of its start, and not those of a file that its row names since."""
    own = folders.allowed / ".env"
    own.write_text("TOKEN=violet-harbour-31\n")
    assert location.project
    job = fork(location, location.checkpoints.latest("pk"), location.project)
    Job.objects.filter(pk=job.pk).update(status="running")
    storage = storage_of(job)
    storage.create()
    storage.write_request({"environment_file": str(own)})
    spool = Spool(Path(job.folder))
    spool.write("text", text="violet-harbour-31 and plain-words")
    spool.write("ended", status="succeeded", result="violet-harbour-31", error="", traceback="")
    (folders.hidden / ".env").write_text("OTHER=plain-words\n")
    Project.objects.update(environment_file=str(folders.hidden / ".env"))
    settings.CHECKPOINT_ROOTS = [folders.hidden / "nothing"]
    ensure_finished(job)
    job.refresh_from_db()
    assert (job.status, job.result) == (Job.Status.SUCCEEDED, "[redacted]")
    assert job.events.get(kind="text").data["text"] == "[redacted] and plain-words"
    # New work is refused.
    ensure_finished(queued := fork(location, location.checkpoints.latest("pk"), location.project))
    queued.refresh_from_db()
    assert queued.status == Job.Status.FAILED and "outside the folders" in str(queued.error)


def test_rows_of_another_host_are_not_read_at_their_paths_here(
    location: Location, other: Host, folders: Folders
) -> None:
    of_other = Location.objects.create(
        host=other, path=location.path, store_kind="json", identity=location.identity
    )
    project = folders.project(other, folder=str(folders.allowed), environment_file="")
    checkpoint = location.checkpoints.latest("pk")
    Checkpoint.objects.filter(pk=checkpoint.pk).update(location=of_other)
    for request in (ImportLocation(of_other.pk), ReadBody(checkpoint.pk), CheckProject(project.pk)):
        with pytest.raises(HostAway):
            sent(request)


# Whose rights a host checks: those of the person whom a row names.


def of(user: User | None, key: int | None = None) -> dict[str, Any]:
    return {"kind": "user", "name": "ada", "user": user.pk if user else key}


@pytest.fixture
def without_right() -> list[dict[str, Any]]:
    """Return senders who may only view, and those who may do nothing at all."""
    inactive = teammate("inactive", may="run")
    inactive.is_active = False
    inactive.save()
    itself, stranger = ({"kind": kind, "name": ""} for kind in ("server", "visitor"))
    return [of(teammate("viewer")), itself, stranger, of(inactive), of(None, 9999), of(None)]


def test_a_host_does_only_what_the_person_has_a_right_to(
    location: Location, without_right: list[dict[str, Any]]
) -> None:
    checkpoint = location.checkpoints.latest("pk")
    prune = ListPrunable(location.pk, PruneRules(days=0))
    for number, sender in enumerate(without_right):
        with acting_for(sender):
            with pytest.raises(HostRefusal, match="permission"):
                sent(prune)
            may_view = nullcontext() if number < 3 else pytest.raises(HostRefusal, match="permission")
            with may_view:
                assert sent(ReadBody(checkpoint.pk))
    with acting_for(of(teammate("ada", may="run"))):
        assert sent(prune).rows


def test_a_role_on_another_location_is_no_right_here(location: Location) -> None:
    checkpoint, ada = location.checkpoints.latest("pk"), teammate("ada")
    other = Location.objects.create(path="/srv/other", store_kind=Location.StoreKind.JSON)
    ada.roles.update(location=other, level=Level.ADMIN)
    read, prune = ReadBody(checkpoint.pk), ListPrunable(location.pk, PruneRules(days=0))
    with acting_for(of(ada)):
        for request in (read, prune, ImportLocation(location.pk)):
            with pytest.raises(HostRefusal, match="permission"):
                sent(request)
    Role.objects.create(user=ada, location=location, level=Level.OPERATOR)
    with acting_for(of(ada)):
        assert sent(read)
        with pytest.raises(HostRefusal, match="permission"):
            sent(prune)
    assert location.project
    job = fork(location, checkpoint, location.project, ada)
    ada.roles.filter(location=location).delete()
    ensure_finished(job)
    job.refresh_from_db()
    assert job.status == Job.Status.QUEUED


def test_requests_on_one_machine_pass_the_same_check(location: Location, settings: Settings) -> None:
    prune = ListPrunable(location.pk, PruneRules(days=0))
    for settings.IS_DATABASE_SHARED in (False, True):
        assert routing.answer(prune).rows
        with acting_for(of(teammate("viewer"))), pytest.raises(HostRefusal, match="permission"):
            routing.answer(prune)


def test_a_job_whose_person_has_lost_the_right_does_not_start(location: Location) -> None:
    checkpoint = location.checkpoints.latest("pk")
    assert location.project
    viewer, inactive, deleted = (teammate(name, may="run") for name in ("viewer", "inactive", "deleted"))
    jobs = []
    for person in (viewer, inactive, deleted):
        jobs.append(fork(location, checkpoint, location.project, person))
    viewer.roles.all().delete()
    User.objects.filter(pk=inactive.pk).update(is_active=False)
    deleted.delete()
    for job in jobs:
        ensure_finished(job)
        job.refresh_from_db()
        # It waits for an admin.
        assert job.status == Job.Status.QUEUED
        assert not (Path(job.folder) / "request.json").exists()


def test_only_a_command_on_the_machine_itself_permits_a_path(
    here: Host, folders: Folders, settings: Settings
) -> None:
    path = folders.hidden / "1.15.30/json"
    with pytest.raises(HostRefusal):
        sent(PermitPaths([str(path)]))
    with pytest.raises(HostRefusal):
        sent(OpenLocation(str(path), anywhere=True))
    added = Location.objects.get(pk=answer(OpenLocation(str(path), anywhere=True)))
    assert sent(ImportLocation(added.pk)).added == 6
    # A project next to it has to be named as well.
    with pytest.raises(HostRefusal):
        sent(FindEntryPoints("crewai", str(folders.hidden)))
    answer(PermitPaths([str(folders.hidden), str(folders.hidden / ".env")]))
    assert sent(Redact(folders.project(here).pk, [f"x {KEY}"])) == ["x [redacted]"]
    file = Path(settings.DATA_DIR) / PERMITTED_FILE
    assert file.stat().st_mode & 0o777 == 0o600 and len(file.read_text().splitlines()) == 3
    # A full disk has cut the last line.
    file.write_text('"/one"\n"/tw')
    permit("/three")
    assert _permitted_here() == {"/one", "/three"}


def test_a_command_permits_only_what_it_names_of_a_forged_project(
    here: Host, location: Location, folders: Folders, settings: Settings
) -> None:
    location.project = folders.project(here)
    location.save()
    file = Path(settings.DATA_DIR) / PERMITTED_FILE
    project_for(location)
    assert not file.exists()
    named = folders.hidden / "python3"
    named.symlink_to(sys.executable)
    options = {"project": None, "python": str(named), "env_file": None}
    project = project_for(location, options)
    assert file.read_text().splitlines() == [json.dumps(str(named))]
    with pytest.raises(JobRefused, match="outside the folders"):
        sent(CheckProject(project.pk))
