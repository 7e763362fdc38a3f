"""Questions and answers, also when processes are killed."""

import os
import signal
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from forkline_runner.reporting import Questions, Reporter, Withdrawn, fitting
from tests.jobs.conftest import MakeJob, StartWorker, finished, followed, marks, status
from tests.waiting import exit_status, wait_until
from viewer.host.jobs.events import ingest, redactor_of
from viewer.host.jobs.files import storage_of
from viewer.host.jobs.spool import Spool, SpoolEvent, answer_name, read_events
from viewer.host.jobs.starting import launch
from viewer.launching.start import redacted_answer, send_answer
from viewer.models import Job, Project, Question
from viewer.records.hosts import enqueue
from viewer.records.limits import seconds_of


def asked(job: Job, number: int = 1) -> Question:
    """Return the question of the job once it exists."""
    wait_until(lambda: job.questions.filter(number=number).exists())
    return job.questions.get(number=number)


@pytest.fixture
def people(transactional_db: None) -> tuple[User, User]:
    return User.objects.create(username="anna"), User.objects.create(username="otto")


def test_the_first_answer_wins_and_continues_the_run(make_job: MakeJob, people: tuple[User, User]) -> None:
    job = make_job("asks.py")
    with followed(job):
        first = asked(job)
        assert (first.kind, first.prompt, first.choices) == (
            "human_feedback",
            "Is it good?",
            ["rejected", "approved"],
        )
        assert "sk-proj" not in str(first.context)
        wait_until(lambda: Job.objects.get(pk=job.pk).is_waiting_for_an_answer)
        assert send_answer(first, "again", people[0])
        second = asked(job, 2)
        assert (job.folder / answer_name(1)).stat().st_mode & 0o077 == 0
        assert send_answer(second, "fine", people[0])
        assert not send_answer(second, "no", people[1])
        assert second.answered_by == people[0]
    assert (job.status, job.result) == ("succeeded", "fine")
    assert not Job.objects.get(pk=job.pk).is_waiting_for_an_answer
    assert not list(job.folder.glob("answer-*"))


def test_a_key_in_an_answer_reaches_the_run_and_is_stored_nowhere(make_job: MakeJob) -> None:
    job, key = make_job("asks.py"), "sk-canary0123456789abcdefghij"
    with followed(job):
        first = asked(job)
        assert send_answer(first, f"{key}\nagain", None)
        assert redacted_answer(first) == "[redacted]\nagain"
    first.refresh_from_db()
    # It was delivered completely: the runner ends with the answer, which is redacted again.
    assert (job.status, job.result, first.answer) == ("succeeded", "[redacted]\nagain", "[redacted]\nagain")


def test_cancelling_a_waiting_run_withdraws_its_question(make_job: MakeJob) -> None:
    job = make_job("asks.py")
    with followed(job):
        question = asked(job)
        assert job.request_cancel()
    question.refresh_from_db()
    assert status(job) == "cancelled"
    assert question.withdrawn_at is not None
    assert not send_answer(question, "late", None)
    assert not (job.folder / answer_name(1)).exists()


def test_a_question_outlives_its_worker_and_is_asked_once(
    make_job: MakeJob, start_worker: StartWorker, project: Project
) -> None:
    job = make_job("asks.py")
    worker = start_worker("asks.py")
    enqueue(job)
    question = asked(job)
    worker.kill()
    worker.wait()
    # A process was killed between the two: the row has the answer, the folder does not.
    assert question.record_answer("yes", None)
    finished(job)
    assert (job.status, job.result) == ("succeeded", "yes")
    assert job.questions.count() == 1
    assert marks(project) == [str(job.pk)]


def test_killing_a_waiting_runner_withdraws_its_question(make_job: MakeJob) -> None:
    job = make_job("asks.py")
    with followed(job):
        question = asked(job)
        wait_until(lambda: Job.objects.get(pk=job.pk).process_id)
        os.kill(Job.objects.get(pk=job.pk).process_id or 0, signal.SIGKILL)
    question.refresh_from_db()
    assert status(job) == "interrupted"
    assert not question.is_waiting


def test_an_answer_without_a_follower_reaches_the_run(make_job: MakeJob) -> None:
    job = make_job("asks.py")
    storage_of(job).create()
    child = launch(job)
    assert child
    wait_until(lambda: any(line["kind"] == "question" for line in read_events(job.folder, 0)[0]))
    ingest(job, read_events(job.folder, 0)[0], redactor_of(job.project), set())
    assert send_answer(job.questions.get(), "meanwhile", None)
    assert exit_status(child) == 0
    finished(job)
    assert (job.status, job.result) == ("succeeded", "meanwhile")


def test_a_withdrawn_question_is_not_open_any_more(
    make_job: MakeJob,
) -> None:
    job, waiting = make_job(), set[int]()
    lines = [line(1, "question", number=1), line(2, "question", number=2), line(3, "withdrawn", number=1)]
    for _again in range(2):
        ingest(job, lines, redactor_of(job.project), waiting)
    assert waiting == {2}
    assert [question.is_waiting for question in job.questions.all()] == [False, True]


def test_withdrawing_one_question_leaves_the_others_open(tmp_path: Path) -> None:
    reporter = Reporter(Spool(tmp_path))
    questions = Questions(tmp_path, reporter, answer_name)
    ends: list[str] = []

    def ask(asker: str) -> None:
        try:
            ends.append(f"{asker} {questions.ask('text_input', 'Which?', asker=asker)}")
        except Withdrawn:
            ends.append(f"{asker} gone on")

    threads = [threading.Thread(target=ask, args=(asker,)) for asker in ("hasty", "patient")]
    threads[0].start()
    wait_until(lambda: len(read_events(tmp_path, 0)[0]) == 1)
    threads[1].start()
    wait_until(lambda: len(read_events(tmp_path, 0)[0]) == 2)
    questions.withdraw("hasty")
    threads[0].join(60)
    assert ends == ["hasty gone on"]
    # Written in one piece, as answers are delivered.
    (tmp_path / "half").write_text('{"text": "this"}')
    (tmp_path / "half").rename(tmp_path / answer_name(2))
    threads[1].join(60)
    assert ends[1:] == ["patient this"]
    kinds = [(line["kind"], line["data"]["number"]) for line in read_events(tmp_path, 0)[0]]
    assert kinds == [("question", 1), ("question", 2), ("withdrawn", 1), ("answered", 2)]


@pytest.mark.parametrize("number", [None, 0, -1, True, 2**70, "1"])
def test_a_question_without_a_valid_number_is_ignored(make_job: MakeJob, number: object) -> None:
    job = make_job()
    ingest(job, [line(1, "question", number=number)], redactor_of(job.project), set())
    assert not job.questions.exists()


def test_overlapping_waits_count_once() -> None:
    now = timezone.now()
    job = Job(started_at=now - timedelta(seconds=200), ended_at=now)
    spans = ((100, 60), (80, 40), (75, 70), (20, 10))
    waits = [(now - timedelta(seconds=asked), now - timedelta(seconds=answered)) for asked, answered in spans]
    assert seconds_of(job, waits) == pytest.approx(200 - 70)


def line(seq: int, kind: str, **data: object) -> SpoolEvent:
    return SpoolEvent(seq=seq, at=1.7e9 + seq, kind=kind, data=data)


def test_an_output_too_long_for_an_event_is_cut_with_a_note(tmp_path: Path) -> None:
    fit = fitting({"output": "é\n" * 200_000, "choices": ["x"] * 80, "agent": "", "position": 3})
    assert fit["is_cut"]
    assert 15_000 < len(fit["output"]) < 60_000
    assert (len(fit["choices"]), fit["position"]) == (50, 3)
    assert "agent" not in fit
    assert fitting({"output": "short"}) == {"output": "short"}
