"""The inbox, the number of questions in the header of each page, and answers."""

import json
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from viewer.host.jobs.spool import answer_name
from viewer.models import Job, JobEvent, Location, Question
from viewer.web.live.feeds import JobFeed


@pytest.fixture
def job(db: None, tmp_path: Path) -> Job:
    """Create a running job with a folder for its answers."""
    location = Location.objects.create(path=str(tmp_path), store_kind="json")
    job = Job.objects.create(
        kind="fork", location=location, branch="what-if", status="running", started_at=timezone.now()
    )
    job.folder.mkdir(parents=True)
    return job


def ask(job: Job, number: int = 1, kind: str = "human_feedback", **context: object) -> Question:
    """Create a question as the worker does, with its event."""
    about = {"method": "draft", "output": "A <draft>", **context}
    data = {"number": number, "kind": kind, "prompt": f"Is {number} good?", "context": about}
    question = Question.objects.create(job=job, **data)
    JobEvent.objects.create(
        job=job, seq=job.events.count() + 1, kind="question", at=timezone.now(), data=data
    )
    return question


def text_of(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def send(client: Client, question: Question, **data: str) -> str:
    address = reverse("question-answer", args=[question.job_id, question.number])
    response = client.post(address, data, headers={"HX-Request": "true"})
    assert response.status_code == 200
    return response.content.decode()


def delivered_answer(question: Question) -> str:
    return str(json.loads((question.job.folder / answer_name(question.number)).read_text())["text"])


def test_edited_arguments_that_are_no_object_are_shown_again_with_the_reason(
    runner: Client, job: Job
) -> None:
    question = ask(job, kind="tool_call", output='{"to": "ada"}', choices=["call", "refuse"])
    html = send(runner, question, text='{"to":')
    assert "or with the arguments as a JSON object" in html and "{&quot;to&quot;:</textarea>" in html
    assert "<html" not in html and '<details class="fold" open>' in html
    address = reverse("question-answer", args=[job.pk, 1])
    page = runner.post(address, {"text": '{"to":'}).content.decode()
    assert "<html" in page and "or with the arguments as a JSON object" in page
    assert "{&quot;to&quot;:</textarea>" in page, "Without scripts, what was typed stays as well."
    question.refresh_from_db()
    assert question.is_waiting
    assert "Call with these arguments" in text_of(runner, question.get_absolute_url())


@pytest.mark.parametrize("name", ["inbox", "inbox-waiting", "inbox-count", "question", "question-answer"])
def test_visitors_see_and_answer_no_questions(client: Client, job: Job, name: str) -> None:
    question = ask(job)
    arguments = [job.pk, 1] if name.startswith("question") else []
    response = client.post(reverse(name, args=arguments), {"text": "yes"})
    assert response.status_code == 302
    assert response.headers["Location"].startswith(reverse("login"))
    question.refresh_from_db()
    assert question.is_waiting


def test_the_inbox_lists_questions_oldest_first_and_each_page_shows_their_number(
    runner: Client, job: Job
) -> None:
    assert "No pending questions" in text_of(runner, reverse("inbox"))
    for number in (1, 2, 3):
        ask(job, number)
    Question.objects.get(number=2).record_answer("yes", None)
    page = text_of(runner, reverse("inbox"))
    assert page.index("Is 1 good?") < page.index("Is 3 good?")
    assert "Is 2 good?" not in page
    for address in (reverse("locations"), reverse("inbox-count")):
        assert ">2<span" in text_of(runner, address)
    job.end(Job.Status.INTERRUPTED)
    assert "inbox-count number" not in text_of(runner, reverse("locations"))


def test_the_open_inbox_refreshes_its_list(runner: Client, job: Job) -> None:
    address = reverse("inbox-waiting")
    for _ in range(2):
        page, part = text_of(runner, reverse("inbox")), text_of(runner, address)
        assert f'hx-get="{address}" hx-trigger="every' in part and "<html" not in part
        assert part.strip() in page
        ask(job, job.questions.count() + 1)
    assert "Is 1 good?" in part and "Is 2 good?" in text_of(runner, address)


def test_a_question_shows_its_context_and_the_meaning_of_an_empty_answer(runner: Client, job: Job) -> None:
    question = ask(job, choices=["rejected", "approved"], empty_means="rejected")
    page = text_of(runner, question.get_absolute_url())
    for text in ("Is 1 good?", "A &lt;draft&gt;", "Method draft", "No feedback (“rejected”)"):
        assert text in page
    assert page.count('name="choice"') == 2
    task = ask(job, 2, kind="human_input", position=3, agent="Writer", method="")
    page = text_of(runner, task.get_absolute_url())
    assert "Task 3, Writer" in page
    assert ">Accept<" in page


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        ({"text": " Shorter,\r\nplease \r\n"}, "Shorter,\nplease"),
        ({"text": "", "choice": "approved"}, "approved"),
        ({"text": "Well done", "choice": "approved"}, "approved\nWell done"),
        ({"text": "half a thought", "nothing": "1"}, ""),
    ],
)
def test_an_answer_is_stored_with_its_author_and_delivered(
    runner: Client, job: Job, sent: dict[str, str], answer: str
) -> None:
    question = ask(job, choices=["rejected", "approved"])
    page = send(runner, question, **sent)
    question.refresh_from_db()
    assert (question.answer, str(question.answered_by)) == (answer, "runner")
    assert delivered_answer(question) == answer
    assert "runner answered" in page
    assert "<textarea" not in page


def test_a_later_answer_is_refused_with_the_name_of_the_first_author(
    client: Client, runner: Client, job: Job
) -> None:
    question = ask(job)
    assert question.record_answer("mine", User.objects.create_user("otto"))
    page = send(runner, question, text="too late")
    assert "Your answer was not used" in page
    assert "otto answered" in page
    question.refresh_from_db()
    assert question.answer == "mine"
    gone = ask(job, 2)
    job.end(Job.Status.CANCELLED)
    assert "The run is no longer waiting for it" in send(runner, gone, text="hello?")


def test_without_scripts_an_answer_redirects_to_the_run(runner: Client, job: Job) -> None:
    question = ask(job)
    address = reverse("question-answer", args=[job.pk, 1])
    assert runner.post(address, {"text": "yes"}).headers["Location"] == job.get_absolute_url()
    assert runner.post(address, {"text": "no"}).headers["Location"] == question.get_absolute_url()
    assert delivered_answer(question) == "yes"


def test_the_list_the_bar_and_the_page_of_a_job_show_that_it_waits(runner: Client, job: Job) -> None:
    ask(job)
    assert "waiting for an answer" in text_of(runner, reverse("jobs"))
    page = text_of(runner, job.get_absolute_url())
    assert "waiting for an answer" in page
    assert "<textarea" in page
    assert "waiting for an answer" in text_of(runner, job.location.get_absolute_url())
    send(runner, Question.objects.get(), text="yes")
    JobEvent.objects.create(job=job, seq=2, kind="answered", at=timezone.now(), data={"number": 1})
    assert "waiting for an answer" not in text_of(runner, reverse("jobs"))
    assert "waiting for an answer" not in text_of(runner, job.get_absolute_url())


def test_an_open_page_shows_each_question_and_its_answer(job: Job) -> None:
    feed = JobFeed(job.pk, after=0, whole=True, can_run=True)
    feed.next_message()
    question = ask(job)
    message = json.loads(feed.next_message() or "")["html"]
    assert "<textarea" in message
    assert "inbox-count number" in message
    question.record_answer("fine by me", None)
    JobEvent.objects.create(job=job, seq=2, kind="answered", at=timezone.now(), data={"number": 1})
    message = json.loads(feed.next_message() or "")["html"]
    assert "fine by me" in message
    assert "<textarea" not in message
    assert "inbox-count number" not in message
    ask(job, 2)
    feed.next_message()
    job.end(Job.Status.CANCELLED)
    assert "Not answered" in (feed.next_message() or "")
