"""Questions are asked at the terminal of a waiting command, if it has one."""

import io
import os
import pty
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.jobs.conftest import MakeJob, followed
from tests.jobs.human_input.test_questions import asked
from tests.terminal import Terminal
from viewer.cli.running import questions_asked
from viewer.cli.starting import outcome_of
from viewer.host.jobs.following import ensure_finished
from viewer.launching.start import send_answer
from viewer.models import Job, Question


@contextmanager
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Return a terminal for stdin and stderr: text written to it is typed, and its output can be read."""
    here, there = pty.openpty()
    with os.fdopen(there, "r") as typed, os.fdopen(os.dup(there), "w") as shown, monkeypatch.context() as now:
        now.setattr(sys, "stdin", typed)
        now.setattr(sys, "stderr", shown)
        yield here
    os.close(here)


def test_a_line_typed_at_the_terminal_is_the_answer(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = make_job("asks.py")
    with keyboard(monkeypatch) as terminal:
        os.write(terminal, b"again\nfine\n")
        with questions_asked(job):
            ensure_finished(job)
        shown = os.read(terminal, 100_000).decode()
    job.refresh_from_db()
    assert (job.status, job.result) == ("succeeded", "fine")
    assert "Is it good?" in shown
    assert "Outcomes: rejected, approved" in shown
    assert "sk-proj" not in shown
    assert capsys.readouterr().out == ""


def test_a_line_that_is_not_utf_8_is_asked_again(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = make_job("asks.py")
    with keyboard(monkeypatch) as terminal:
        os.write(terminal, b"gr\xfc\xdfe\nfine\n")
        with questions_asked(job):
            ensure_finished(job)
        shown = os.read(terminal, 100_000).decode(errors="replace")
    job.refresh_from_db()
    assert (job.status, job.result) == ("succeeded", "fine")
    assert "cannot be read" in shown and capsys.readouterr().out == ""


def test_an_answer_from_elsewhere_ends_the_wait_at_the_terminal(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job("asks.py")
    with keyboard(monkeypatch), questions_asked(job), followed(job):
        assert send_answer(asked(job), "from the browser", None)
    assert (job.status, job.result) == ("succeeded", "from the browser")


@pytest.fixture
def without_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be read from stdin."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())


@pytest.mark.usefixtures("without_terminal")
def test_without_a_terminal_a_wait_ends_with_the_question_and_the_command(
    make_job: MakeJob, terminal: Terminal
) -> None:
    job = make_job("asks.py")
    output = outcome_of(job, [], waits=True)
    (asked_one,) = output.document["questions"]
    assert (output.status, output.document["status"]) == (3, "waiting")
    assert (asked_one["job"], asked_one["number"], asked_one["prompt"]) == (str(job.pk), 1, "Is it good?")
    command = f"forkline answer {job.pk} 1 --wait --text …"
    assert asked_one["command"] == command and [*output.lines][-1].strip() == command
    assert "Is it good?" in output.lines and not any("sk-proj" in line for line in output.lines)
    # The run waits on, and the command that was named continues it.
    assert job.status == "running"
    assert terminal.document("answer")["questions"][0]["number"] == 1
    printed = terminal.document("answer", str(job.pk)[:8], "1", "--text", "approved", "--wait")
    assert (printed["answered"], printed["answer"]) == (True, "approved")
    assert (printed["status"], printed["result"], printed["questions"]) == ("succeeded", "approved", [])
    assert terminal.document("answer") == {"questions": []}


@pytest.mark.usefixtures("without_terminal")
def test_a_wait_for_a_run_of_a_worker_ends_with_its_question(make_job: MakeJob) -> None:
    job = make_job("asks.py")
    with followed(job):
        question = asked(job)
        output = outcome_of(job, [], waits=True)
        assert (output.status, len(output.document["questions"])) == (3, 1)
        assert send_answer(question, "fine", None)
    assert outcome_of(job, [], waits=True).status == 0


def test_a_terminal_that_is_closed_ends_the_wait(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job("asks.py")
    with keyboard(monkeypatch) as terminal:
        # The end of the input, as Ctrl-D types it.
        os.write(terminal, b"\x04")
        assert outcome_of(job, [], waits=True).status == 3
    assert send_answer(asked(job), "fine", None)
    ensure_finished(job)
    assert (job.status, job.result) == ("succeeded", "fine")


def test_an_answer_to_nothing_or_to_one_of_several_is_refused(make_job: MakeJob) -> None:
    job = make_job()
    with pytest.raises(CommandError, match="There is no such pending question"):
        call_command("checkpoints", "answer", str(job.pk), "--text", "yes")
    for number in (1, 2):
        Question.objects.create(job=job, number=number, kind="text_input", prompt="\x1b[2JWhich?")
    with pytest.raises(CommandError, match="Several"):
        call_command("checkpoints", "answer", str(job.pk), "--text", "yes")
    call_command("checkpoints", "answer", str(job.pk), "2", "--text", "yes")
    assert [question.answer for question in Job.objects.get().questions.order_by("number")] == ["", "yes"]


def test_a_question_cannot_command_the_terminal(make_job: MakeJob, terminal: Terminal) -> None:
    Question.objects.create(job=make_job(), number=1, kind="text_input", prompt="\x1b[2JWhich?")
    assert "\x1b" not in terminal.text("answer")
