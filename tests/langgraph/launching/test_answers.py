"""Answers in the forms of forks and resumes, and from there to several forks."""

import re
from collections.abc import Callable
from urllib.parse import unquote

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.langgraph.conftest import opened
from viewer.engines.plan import AnswerOption, OpenQuestion
from viewer.models import Checkpoint, Job, Location, Project
from viewer.web.launch.conversations import AnswersForm

OPTIONS = (AnswerOption("yes", "yes"), AnswerOption("no", "no"))
QUESTIONS = [OpenQuestion("a" * 32, "Publish?", OPTIONS), OpenQuestion("", "Why?")]


def answers(**sent: str) -> dict[str, object]:
    data = QueryDict(mutable=True)
    data.update({name.replace("_", ":"): text for name, text in sent.items()})
    form = AnswersForm(data, QUESTIONS)
    assert form.is_valid(), form.errors
    return form.answers


def test_a_choice_or_a_typed_answer_is_the_answer() -> None:
    assert answers() == {}
    assert answers(choice_0="no", answer_1="Too soon") == {"a" * 32: "no", "": "Too soon"}
    assert answers(choice_0="no", answer_0="later") == {"a" * 32: "later"}


def test_an_answer_has_the_type_that_a_person_chose() -> None:
    assert answers(answer_1='{"ok": true}', type_1="json") == {"": {"ok": True}}
    assert answers(answer_1="true") == {"": "true"}
    assert answers(answer_1="false", type_1="json") == {"": False}


@pytest.mark.parametrize(("name", "text"), [("choice:0", "maybe"), ("answer:1", "{")])
def test_an_invalid_answer_is_an_error(name: str, text: str) -> None:
    data = QueryDict(mutable=True)
    data.update({name: text, "type:1": "json"})
    form = AnswersForm(data, QUESTIONS)
    assert not form.is_valid() and name in form.errors and form.answers == {}


@pytest.fixture
def row(threads: Callable[[str], Location]) -> Checkpoint:
    """A waiting checkpoint whose project may run."""
    location = threads("lg12")
    location.project = Project.objects.create(folder="/", interpreter="/x", confirmed_at=timezone.now())
    location.save()
    return opened(location, "appr-waiting").checkpoints.latest("row")


def test_a_waiting_checkpoint_can_be_answered_in_the_thread_or_in_forks(
    row: Checkpoint, runner: Client
) -> None:
    page = runner.get(row.get_absolute_url()).content.decode()
    assert f"{reverse('resume', args=[row.pk])}#answers" in page and "leaves the run waiting" in page
    assert page.index("Waits for an answer") < page.index('aria-label="Checkpoint sections"')
    resume = runner.get(reverse("resume", args=[row.pk])).content.decode()
    assert 'name="answer:0"' in resume and "continues the run itself" in resume
    fork = runner.get(reverse("fork", args=[row.pk])).content.decode()
    assert "continues a copy" in fork and 'name="stop_before"' in fork
    sent = runner.post(reverse("fork-plan", args=[row.pk]), {"answer:0": "{", "type:0": "json"})
    assert "not valid JSON" in sent.content.decode()


def test_a_waiting_checkpoint_asks_with_its_choices_and_each_leads_to_its_answer(
    row: Checkpoint, runner: Client
) -> None:
    page = runner.get(row.get_absolute_url()).content.decode()
    asked = page[page.index('class="asked"') : page.index('aria-label="Checkpoint sections"')]
    resume = reverse("resume", args=[row.pk])
    links = re.findall(rf'href="({resume}\?choice:0=[^"#]+)#answers"', asked)
    assert len(links) > 1 and "{" not in asked
    # Nothing is an id before a person asks for details.
    assert not re.search(r"[0-9a-f]{16,}", asked.split("hx-get", 1)[1].split(">", 1)[1])
    label = unquote(links[0].partition("=")[2])
    opened_form = runner.get(links[0]).content.decode()
    assert f"Send answer: {label}" in opened_form and not Job.objects.exists()
    assert re.search(rf'name="choice:0" value="{label}"\s+checked', opened_form)


def test_the_inbox_asks_what_a_paused_run_asks(row: Checkpoint, runner: Client) -> None:
    inbox, address = runner.get(reverse("inbox")), reverse("run-questions", args=[row.run.uid])
    assert f'hx-get="{address}"' in inbox.content.decode()
    asked = runner.get(address).content.decode()
    assert asked.count("question-prompt") == 1 and f"{reverse('resume', args=[row.pk])}?choice:0=" in asked
    of_page = runner.get(address, {"at": row.checkpoint_id}).content.decode()
    assert of_page.count("question-prompt") == 1
    earlier = row.run.checkpoints.earliest("row")
    assert not runner.get(address, {"at": earlier.checkpoint_id}).content.decode().strip()


def test_nobody_is_asked_while_a_job_answers(row: Checkpoint, runner: Client) -> None:
    values = {"project": row.location.project, "location": row.location, "run": row.run, "checkpoint": row}
    job = Job.objects.create(kind=Job.Kind.RESUME, status=Job.Status.RUNNING, **values)
    asked = runner.get(reverse("run-questions", args=[row.run.uid])).content.decode()
    assert "This is being answered" in asked and job.get_absolute_url() in asked
    assert "choice:0" not in asked


def test_a_person_who_may_not_run_sees_the_question_only(row: Checkpoint, reader: Client) -> None:
    asked = reader.get(reverse("run-questions", args=[row.run.uid])).content.decode()
    assert "question-prompt" in asked and "href" not in asked


def test_a_resume_preselects_nothing_and_its_button_names_the_answer(row: Checkpoint, runner: Client) -> None:
    address, plan = reverse("resume", args=[row.pk]), reverse("resume-plan", args=[row.pk])
    page = runner.get(address).content.decode()
    radios = re.findall(r'<input type="radio" name="choice:0"[^>]*>', page)
    assert len(radios) > 1 and not any("checked" in radio for radio in radios)
    assert "Choose an answer" not in page
    refused = runner.post(address, {"answer:0": "", "type:0": "text"}).content.decode()
    assert "Choose an answer, or choose to be asked in the inbox." in refused and not Job.objects.exists()
    label = re.findall(r'value="([^"]+)"', radios[0])[0]
    chosen = runner.post(plan, {"choice:0": label}).content.decode()
    assert f"Send answer: {label}" in chosen and "Choose an answer" not in chosen
    typed = runner.post(plan, {"answer:0": "later", "type:0": "text"}).content.decode()
    assert "Send answer: later" in typed
    asked = runner.post(plan, {"choice:0": ""}).content.decode()
    assert "Choose an answer" not in asked and "Send answer" not in asked
    assert [
        radio
        for radio in re.findall(r'<input type="radio" name="choice:0"[^>]*>', asked)
        if "checked" in radio
    ]
