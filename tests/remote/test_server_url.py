"""``forkline --server`` runs commands on a server elsewhere, as on this machine."""

import json
import os
import pty
import signal
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.api.conftest import with_role
from tests.jobs.conftest import StartWorker, marks
from tests.remote.conftest import PATIENCE, Forkline
from tests.waiting import wait_until
from viewer.cli import SUBCOMMANDS
from viewer.cli.remote import ON_MACHINE
from viewer.models import Annotation, ApiToken, Checkpoint, Comment, Job, Level, Location, Question
from viewer.records.accounts import make_token, revoke_token


def test_reading_prints_the_same(
    forkline: Forkline, checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    target = checkpoint.target
    for arguments in (
        ["list", checkpoint.location.path],
        ["info", target],
        ["diff", target, target],
        ["answer"],
    ):
        for more in ([], ["--json"]):
            capsys.readouterr()
            call_command("checkpoints", *arguments, *more)
            done = forkline.run(*arguments, *more)
            assert (done.stdout, done.returncode) == (capsys.readouterr().out, 0), done.stderr
    assert forkline.run("info", str(checkpoint.pk)).returncode == 0
    # Its own data folder has no rows.
    assert not list((forkline.folder / "data").glob("*.sqlite3"))


def test_exit_statuses_are_those_of_the_commands(forkline: Forkline, checkpoint: Checkpoint) -> None:
    other = forkline.run("diff", checkpoint.target, f"{checkpoint.location.path}#none")
    assert (other.returncode, "has no checkpoint none" in other.stderr) == (2, True), other.stderr
    assert forkline.run("list").returncode == 2
    assert forkline.run("fork", checkpoint.target, "--unknown").returncode == 2
    refused = forkline.run("fork", checkpoint.target, "--branch", "main", "--json")
    assert refused.returncode == 1 and json.loads(refused.stdout)["status"] == "refused"


def test_a_fork_is_started_and_waited_for(
    forkline: Forkline, checkpoint: Checkpoint, start_worker: StartWorker
) -> None:
    start_worker("succeeds.py")
    assert checkpoint.location.project
    done = forkline.run("fork", checkpoint.target, "--input", "topic=tea", "--wait")
    job = Job.objects.get()
    assert (done.returncode, job.status) == (0, "succeeded"), done.stderr
    assert "all done" in done.stdout and str(job.pk) in done.stdout
    assert marks(checkpoint.location.project) == [str(job.pk)]
    assert job.requested_by and job.requested_by.username == "olga"
    document = json.loads(forkline.run("fork", checkpoint.target, "--wait", "--json").stdout)
    assert (document["status"], document["result"]) == ("succeeded", "all done")


def test_a_sweep_is_waited_for(forkline: Forkline, checkpoint: Checkpoint, start_worker: StartWorker) -> None:
    start_worker("succeeds.py")
    done = forkline.run("sweep", checkpoint.target, "--vary", 'topic=["tea", "milk"]', "--wait")
    assert (done.returncode, done.stdout.count("all done")) == (0, 2), done.stdout + done.stderr


def test_some_of_several_are_refused(
    forkline: Forkline, checkpoint: Checkpoint, start_worker: StartWorker
) -> None:
    start_worker("succeeds.py")
    missing = f"{checkpoint.location.path}#none"
    done = forkline.run("bulk", "fork", checkpoint.target, missing, "--wait")
    assert (done.returncode, done.stdout.count("all done"), missing in done.stderr) == (1, 1, True), done


def test_ctrl_c_leaves_the_run_alone(
    forkline: Forkline, checkpoint: Checkpoint, start_worker: StartWorker
) -> None:
    start_worker("succeeds_after_go.py")
    process = forkline.begin("fork", checkpoint.target, "--wait")
    wait_until(lambda: Job.objects.filter(status="running").exists())
    process.send_signal(signal.SIGINT)
    _printed, said = process.communicate(timeout=PATIENCE)
    job = Job.objects.get()
    assert process.returncode == 130 and f"forkline cancel {job.pk}" in said, said
    assert job.status == "running" and job.cancel_requested_at is None
    assert forkline.run("cancel", str(job.pk)).returncode == 0
    wait_until(lambda: Job.objects.filter(status="cancelled").exists())


def test_a_question_ends_the_wait_and_is_answered(
    forkline: Forkline, checkpoint: Checkpoint, start_worker: StartWorker
) -> None:
    start_worker("asks.py")
    asked = forkline.run("fork", checkpoint.target, "--wait")
    question = Question.objects.get()
    assert asked.returncode == 3 and f"forkline answer {question.job_id}" in asked.stdout, asked
    done = forkline.run("answer", str(question.job_id), "--text", "Green.", "--wait")
    assert (done.returncode, "succeeded" in done.stdout) == (0, True), done
    question.refresh_from_db()
    assert question.answer == "Green."


def test_a_question_is_asked_at_the_terminal_that_waits(
    forkline: Forkline, checkpoint: Checkpoint, start_worker: StartWorker
) -> None:
    start_worker("asks.py")
    here, there = pty.openpty()
    process = forkline.begin("fork", checkpoint.target, "--follow", terminal=there)
    os.close(there)
    shown = ""
    for typed in (b"again\n", b"fine\n"):
        while not shown.endswith("> "):
            shown += os.read(here, 10_000).decode()
        os.write(here, typed)
        shown += os.read(here, 10_000).decode()
    printed, _said = process.communicate(timeout=PATIENCE)
    os.close(here)
    assert (process.returncode, Job.objects.get().result) == (0, "fine"), shown
    assert printed.count("fine") == 1 and shown.count("Is it good?") == 2
    assert "Outcomes: rejected, approved" in shown and "sk-proj" not in shown
    answers = Question.objects.order_by("number").values_list("answer", "answered_by__username")
    assert list(answers) == [("again", "olga"), ("fine", "olga")]


def test_files_are_read_and_written_on_this_machine(
    forkline: Forkline, checkpoint: Checkpoint, start_worker: StartWorker
) -> None:
    start_worker("succeeds.py")
    (forkline.folder / "state.txt").write_text("@elsewhere")
    arguments = ("fork", checkpoint.target, "--output", f"1=@{forkline.folder / 'state.txt'}")
    assert forkline.run(*arguments).returncode == 0
    assert "@elsewhere" in json.dumps(Job.objects.get().request)
    done = forkline.run("export", checkpoint.target, "--format", "markdown")
    (written,) = forkline.folder.glob("*.md")
    assert str(written.name) in done.stdout and written.read_text().startswith("#")
    again = forkline.run("export", checkpoint.target, "--output", written.name, "--format", "markdown")
    assert again.returncode == 1 and "already exists" in again.stderr
    shown = forkline.run("export", checkpoint.target, "--output", "-", "--format", "markdown")
    assert shown.stdout.strip() == written.read_text().strip()
    assert forkline.run("collection", "teas", "--add", checkpoint.target).returncode == 0
    assert forkline.run("collection", "teas", "--export", "teas.jsonl").returncode == 0
    copied = forkline.run("collection", "copies", "--import", "teas.jsonl", "--json")
    assert json.loads(copied.stdout)["added"] == 1, copied.stderr


def test_what_a_person_writes_is_theirs(
    forkline: Forkline, checkpoint: Checkpoint, start_worker: StartWorker
) -> None:
    start_worker("succeeds.py")
    assert forkline.run("note", checkpoint.target, "--name", "Tea", "--star").stdout == "★ Tea\n"
    assert "Greener?" in forkline.run("comments", checkpoint.target, "--add", "Greener?").stdout
    writers = [Annotation.objects.get().changed_by, Comment.objects.get().written_by]
    assert [writer and writer.username for writer in writers] == ["olga", "olga"]


def test_what_concerns_the_machine_is_refused_in_one_sentence(forkline: Forkline, tmp_path: Path) -> None:
    arguments = {"backup": ["x"], "restore": ["x"], "isolation": ["x"], "move": ["--to", "sqlite"]}
    for command in [*ON_MACHINE, "up", "import"]:
        done = forkline.run(command, *arguments.get(command, []))
        assert done.returncode == 1 and "needs the machine itself" in done.stderr, done
        assert len(done.stderr.splitlines()) == 1
    target = f"{tmp_path}#x"
    for option in (["--project", str(tmp_path)], ["--python", "/bin/sh"]):
        done = forkline.run("fork", target, *option)
        assert done.returncode == 1 and "names something of the machine" in done.stderr, done
    assert set(ON_MACHINE) < set(SUBCOMMANDS)


def test_only_known_locations_are_opened(forkline: Forkline, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for command in (["list", str(tmp_path / "other")], ["info", f"{tmp_path}/other#x"], ["list", "/etc"]):
        done = forkline.run(*command)
        assert done.returncode == 1 and "There is no location" in done.stderr, done
    assert Location.objects.count() == 1


# Tokens.


def test_tokens_that_do_not_work(forkline: Forkline, checkpoint: Checkpoint) -> None:
    arguments = ("list", checkpoint.location.path)
    assert "does not accept the token" in forkline.run(*arguments, FORKLINE_TOKEN="fkl_" + "a" * 43).stderr
    for token in ("", "hunter2hunter2hunter2", "fkl_short1234567890"):
        done = forkline.run(*arguments, FORKLINE_TOKEN=token)
        assert done.returncode == 1 and "Set FORKLINE_TOKEN" in done.stderr and "hunter2" not in done.stderr
    made = ApiToken.objects.get()
    made.user.is_active = False
    made.user.save()
    assert "does not accept the token" in forkline.run(*arguments).stderr
    made.user.is_active = True
    made.user.save()
    assert forkline.run(*arguments).returncode == 0
    revoke_token(made)
    done = forkline.run(*arguments)
    assert done.returncode == 1 and "does not accept the token" in done.stderr


def test_a_token_ends_with_its_account(forkline: Forkline, checkpoint: Checkpoint) -> None:
    ApiToken.objects.get().user.delete()
    assert not ApiToken.objects.exists()
    assert "does not accept the token" in forkline.run("list", checkpoint.location.path).stderr


def test_a_viewer_starts_nothing(forkline: Forkline, checkpoint: Checkpoint) -> None:
    _token, text = make_token(with_role("vera", Level.VIEWER), "ci", Level.VIEWER)
    for command in (["fork", checkpoint.target], ["note", checkpoint.target, "--star"]):
        done = forkline.run(*command, FORKLINE_TOKEN=text)
        assert done.returncode == 1 and "does not have the role" in done.stderr, done
    assert forkline.run("note", checkpoint.target, FORKLINE_TOKEN=text).returncode == 0
    assert not Job.objects.exists() and not Annotation.objects.exists()


def test_the_token_may_be_in_a_private_file(forkline: Forkline, checkpoint: Checkpoint) -> None:
    (file := forkline.folder / "token").write_text(f"{forkline.token}\n")
    given = {"FORKLINE_TOKEN": "", "FORKLINE_TOKEN_FILE": str(file)}
    file.chmod(0o644)
    assert "chmod 600" in forkline.run("list", checkpoint.location.path, **given).stderr
    file.chmod(0o600)
    assert forkline.run("list", checkpoint.location.path, **given).returncode == 0
