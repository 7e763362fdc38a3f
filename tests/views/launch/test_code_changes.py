"""The form of a fork says what has changed in the code since a job wrote the checkpoint."""

import json
import re
import uuid
from pathlib import Path

import msgspec
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.jobs.code.repositories import committed, git
from viewer.cli import SUBCOMMANDS, LineParser
from viewer.host.jobs import code, preflight
from viewer.host_requests import ReadSource, ask
from viewer.models import Checkpoint, Job, JobEvent, Location, PreflightCheck, RecordedCode

SECRET = "sk-canary0123456789abcdefghij"


@pytest.fixture
def folder(location: Location) -> Path:
    assert location.project
    found = Path(location.project.folder)
    committed(found, tools__py="def search():\n    return 1\n", old__py="old = 1\n", __gitignore=".venv\n")
    return found


@pytest.fixture
def job(location: Location, checkpoint: Checkpoint, folder: Path) -> Job:
    """A job that wrote the checkpoint with the committed code."""
    assert location.project
    job = Job.objects.create(
        kind=Job.Kind.FORK,
        location=location,
        project=location.project,
        run=checkpoint.run,
        status=Job.Status.SUCCEEDED,
    )
    written = {"id": checkpoint.checkpoint_id}
    JobEvent.objects.create(job=job, seq=1, kind="checkpoint", at=timezone.now(), data=written)
    code.record(job, location.project)
    return job


def edit(folder: Path) -> None:
    (folder / "tools.py").write_text(f'API_KEY = "{SECRET}"\ndef search():\n    return 2\n')
    (folder / "old.py").unlink()
    (folder / "new <1>.py").write_text("new = 1\n")


def form_of(client: Client, checkpoint: Checkpoint, kind: str = "fork") -> str:
    return client.get(reverse(kind, args=[checkpoint.pk])).content.decode()


def shown(client: Client, checkpoint: Checkpoint, name: str) -> str:
    response = client.get(reverse("code-difference", args=[checkpoint.pk]), {"name": name})
    assert response.status_code == 200
    return response.content.decode()


def test_a_checkpoint_of_another_program_says_nothing(
    runner: Client, checkpoint: Checkpoint, folder: Path
) -> None:
    assert "since this ran" not in form_of(runner, checkpoint)
    assert "neither in the recorded code nor" in shown(runner, checkpoint, "tools.py")


def test_unchanged_code_is_named(runner: Client, checkpoint: Checkpoint, job: Job) -> None:
    assert "The code has not changed since this ran." in form_of(runner, checkpoint)


@pytest.mark.parametrize("kind", ["fork", "resume"])
def test_changed_files_are_listed(
    runner: Client, checkpoint: Checkpoint, job: Job, folder: Path, kind: str
) -> None:
    edit(folder)
    page = form_of(runner, checkpoint, kind)
    assert "3 files changed since this ran." in page
    assert "new &lt;1&gt;.py" in page and "?name=new%20%3C1%3E.py" in page
    assert ">added<" in page and ">removed<" in page


def test_a_name_with_a_secret_is_no_change(
    runner: Client, checkpoint: Checkpoint, job: Job, folder: Path
) -> None:
    (folder / f"{SECRET}.py").write_text("new = 1\n")
    page = form_of(runner, checkpoint)
    assert "The code has not changed since this ran." in page and SECRET not in page


def test_a_record_of_some_files_says_so(runner: Client, checkpoint: Checkpoint, job: Job) -> None:
    RecordedCode.objects.update(is_complete=False)
    assert "The project has more." in form_of(runner, checkpoint)


def test_the_difference_has_no_secret(runner: Client, checkpoint: Checkpoint, job: Job, folder: Path) -> None:
    edit(folder)
    page = shown(runner, checkpoint, "tools.py")
    assert "<del>1" in page and "<ins>2" in page and "API_KEY" in page
    assert SECRET not in page and "[redacted]" in page
    assert "There is no such file" in shown(runner, checkpoint, "old.py")
    assert "There was no such file." in shown(runner, checkpoint, "new <1>.py")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", ".env", "data.json", "", "tools.py/.."])
def test_only_sources_are_shown(
    runner: Client, checkpoint: Checkpoint, job: Job, folder: Path, name: str
) -> None:
    for path in (".env", "data.json"):
        (folder / path).write_text("TOKEN=canary")
    page = shown(runner, checkpoint, name)
    assert "neither in the recorded code nor in the project" in page and "canary" not in page


def test_code_that_was_not_committed_is_only_named(
    runner: Client, checkpoint: Checkpoint, job: Job, folder: Path
) -> None:
    (folder / "tools.py").write_text("draft = 1\n")
    assert job.project
    code.record(job, job.project)
    (folder / "tools.py").write_text("draft = 2\n")
    assert "1 file changed since this ran." in form_of(runner, checkpoint)
    assert "git does not have this file as it was then" in shown(runner, checkpoint, "tools.py")


def test_a_commit_that_was_rewritten_away_still_has_the_difference(
    runner: Client, checkpoint: Checkpoint, job: Job, folder: Path
) -> None:
    (folder / "tools.py").write_text("def search():\n    return 2\n")
    git(folder, "commit", "-q", "-a", "--amend", "-m", "again")
    assert "<del>1" in shown(runner, checkpoint, "tools.py")
    git(folder, "reflog", "expire", "--expire=now", "--all")
    git(folder, "gc", "-q", "--prune=now")
    assert "git does not have this file as it was then" in shown(runner, checkpoint, "tools.py")


def test_read_only_users_see_no_code(reader: Client, checkpoint: Checkpoint, job: Job, folder: Path) -> None:
    address = reverse("code-difference", args=[checkpoint.pk])
    assert reader.get(address, {"name": "tools.py"}).status_code == 403


def test_the_plan_at_the_terminal_has_the_changes(checkpoint: Checkpoint, job: Job, folder: Path) -> None:
    edit(folder)
    parser = LineParser(prog="fork")
    SUBCOMMANDS["fork"].add_arguments(parser)
    named = f"{checkpoint.location.path}#{checkpoint.checkpoint_id}"
    output = SUBCOMMANDS["fork"].handle(vars(parser.parse_args([named, "--plan"])))
    found = json.loads(json.dumps(output.document))["code"]
    assert job.code and found["commit"] == job.code.commit and found["is_dirty"] is False
    assert found["changes"] == [
        {"name": "new <1>.py", "change": "added"},
        {"name": "old.py", "change": "removed"},
        {"name": "tools.py", "change": "changed"},
    ]
    assert "3 files changed since this ran." in output.lines


# A launch with the recorded commit.


def planned(client: Client, checkpoint: Checkpoint, kind: str = "fork", **fields: str) -> str:
    address = reverse(f"{kind}-plan", args=[checkpoint.pk])
    return client.post(address, {"branch": "again", **fields}).content.decode()


@pytest.mark.parametrize("kind", ["fork", "resume"])
def test_the_recorded_commit_is_offered(
    runner: Client, checkpoint: Checkpoint, job: Job, folder: Path, kind: str
) -> None:
    edit(folder)
    page = form_of(runner, checkpoint, kind)
    assert job.code and f"The recorded commit {job.code.short_commit}" in page
    assert "cannot be reproduced exactly" not in page
    RecordedCode.objects.update(is_dirty=True)
    assert "cannot be reproduced exactly" in form_of(runner, checkpoint, kind)
    RecordedCode.objects.update(is_dirty=None)
    assert "It is not known whether the code differed" in form_of(runner, checkpoint, kind)


def test_a_commit_that_is_gone_is_not_offered(runner: Client, checkpoint: Checkpoint, job: Job) -> None:
    RecordedCode.objects.update(commit="1" * 40)
    assert 'id="code"' not in form_of(runner, checkpoint)
    assert "no longer has the recorded commit 1111111" in planned(runner, checkpoint, code="recorded")


def test_no_commit_runs_where_none_was_recorded(runner: Client, checkpoint: Checkpoint, folder: Path) -> None:
    assert 'id="code"' not in form_of(runner, checkpoint)
    assert "No commit was recorded for this checkpoint" in planned(runner, checkpoint, code="recorded")


def test_another_value_chooses_nothing(runner: Client, checkpoint: Checkpoint, job: Job) -> None:
    assert "Choose one of these: now, recorded." in planned(runner, checkpoint, code="HEAD")


def started(client: Client, checkpoint: Checkpoint, **fields: str) -> Job:
    """The job that the form starts. Its preflight check runs no engine here, and is taken as done."""
    key = str(uuid.uuid4())
    shown = re.findall(r'name="shown" value="(\w+)"', planned(client, checkpoint, **fields))
    PreflightCheck.objects.update(status=PreflightCheck.Status.DONE, report={"is_complete": True}, error=None)
    sent = {"branch": "again", "key": key, "shown": shown[0], **fields}
    response = client.post(reverse("fork", args=[checkpoint.pk]), sent)
    assert response.status_code == 302, response.content.decode()
    return Job.objects.get(idempotency_key=key)


def test_a_job_has_the_commit_that_was_chosen(
    runner: Client, checkpoint: Checkpoint, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "start_in_background", lambda check: None)
    recorded = started(runner, checkpoint, code="recorded")
    assert job.code and recorded.commit == job.code.commit
    assert PreflightCheck.objects.get(commit=job.code.commit)
    page = runner.get(reverse("fork", args=[checkpoint.pk])).content.decode()
    assert 'value="recorded" selected' not in page
    present = started(runner, checkpoint, branch="present", code="now")
    assert present.commit == ""
    # A check of one code says nothing about the other.
    assert PreflightCheck.objects.count() == 2
    fingerprints = set(PreflightCheck.objects.values_list("fingerprint", flat=True))
    assert len(fingerprints) == 2


def test_each_fork_of_a_sweep_has_the_commit_that_was_chosen(
    runner: Client, checkpoint: Checkpoint, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "start_in_background", lambda check: None)
    assert job.code and f"The recorded commit {job.code.short_commit}" in form_of(
        runner, checkpoint, "new-sweep"
    )
    fields = {"key": str(uuid.uuid4()), "vary-input:year": "2027\n2028", "code": "recorded"}
    page = runner.post(reverse("new-sweep", args=[checkpoint.pk]), fields).content.decode()
    assert 'value="recorded" selected' in page
    PreflightCheck.objects.update(status=PreflightCheck.Status.DONE, report={"is_complete": True}, error=None)
    fields["shown"] = re.findall(r'name="shown" value="(\w+)"', page)[0]
    # The plan of the present code is another one.
    runner.post(reverse("new-sweep", args=[checkpoint.pk]), {**fields, "code": "now"})
    assert Job.objects.count() == 1
    response = runner.post(reverse("new-sweep", args=[checkpoint.pk]), fields)
    assert response.status_code == 302, response.content.decode()
    forks = Job.objects.exclude(pk=job.pk)
    assert {one.commit for one in forks} == {job.code.commit} and forks.count() == 2


def test_another_commit_than_the_one_that_was_shown_starts_nothing(
    runner: Client, checkpoint: Checkpoint, job: Job, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "start_in_background", lambda check: None)
    page = planned(runner, checkpoint, code="recorded")
    shown = re.findall(r'name="shown" value="(\w+)"', page)
    PreflightCheck.objects.update(status=PreflightCheck.Status.DONE, report={"is_complete": True}, error=None)
    RecordedCode.objects.update(commit=committed(folder, tools__py="other = 1\n"))
    planned(runner, checkpoint, code="recorded")
    PreflightCheck.objects.update(status=PreflightCheck.Status.DONE, report={"is_complete": True}, error=None)
    sent = {"branch": "again", "key": str(uuid.uuid4()), "shown": shown[0]}
    for chosen in ("recorded", "now"):
        runner.post(reverse("fork", args=[checkpoint.pk]), {**sent, "code": chosen})
    assert Job.objects.count() == 1


def test_a_retry_of_a_commit_never_runs_the_present_code_instead(
    runner: Client, checkpoint: Checkpoint, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "start_in_background", lambda check: None)
    retried = started(runner, checkpoint, code="recorded")
    Job.objects.filter(pk=retried.pk).update(status=Job.Status.FAILED, branch="other")
    # As if the record had been removed, or its host did not answer.
    Job.objects.filter(pk=job.pk).update(code=None)
    page = runner.get(reverse("fork", args=[checkpoint.pk]), {"retry": str(retried.pk)}).content.decode()
    assert 'value="recorded" selected' in page


def test_read_only_users_start_no_commit(reader: Client, checkpoint: Checkpoint, job: Job) -> None:
    for name in ("fork", "fork-plan", "new-sweep"):
        response = reader.post(reverse(name, args=[checkpoint.pk]), {"code": "recorded"})
        assert response.status_code == 403


def test_the_plan_is_that_of_the_commit(checkpoint: Checkpoint, job: Job, folder: Path) -> None:
    task = 'ConditionalTask(description="Check it", condition=bool)'
    (folder / "crew.py").write_text(f"def build():\n    return Crew(tasks=[{task}])\n")
    asked = ReadSource("crewai", str(folder), "crew:build", "crew")
    commit, before = committed(folder), ask(asked)
    (folder / "crew.py").write_text("def build():\n    return None\n")
    assert before and before != ask(asked)
    assert ask(msgspec.structs.replace(asked, commit=commit)) == before
    assert ask(msgspec.structs.replace(asked, commit="1" * 40)) is None


def test_the_terminal_refuses_a_commit_that_is_gone(checkpoint: Checkpoint, job: Job, folder: Path) -> None:
    RecordedCode.objects.update(commit="1" * 40)
    parser = LineParser(prog="fork")
    SUBCOMMANDS["fork"].add_arguments(parser)
    named = f"{checkpoint.location.path}#{checkpoint.checkpoint_id}"
    output = SUBCOMMANDS["fork"].handle(vars(parser.parse_args([named, "--code", "recorded"])))
    assert output.status == 1 and "no longer has the recorded commit" in output.document["error"]
    parser = LineParser(prog="sweep")
    SUBCOMMANDS["sweep"].add_arguments(parser)
    line = [named, "--code", "recorded", "--vary", "year=[1, 2]"]
    output = SUBCOMMANDS["sweep"].handle(vars(parser.parse_args(line)))
    assert output.status == 1 and "no longer has the recorded commit" in output.document["error"]
    assert Job.objects.count() == 1
