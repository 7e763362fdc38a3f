"""Answers in the forms of forks and resumes, and from there to several forks."""

import re
from collections.abc import Callable

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.langgraph.conftest import opened
from viewer.engines.planning.editable import AnswerOption, OpenQuestion
from viewer.forms.launch.answers import AnswersForm
from viewer.models import Job, Location, Project

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


def test_a_waiting_checkpoint_can_be_answered_in_the_thread_or_in_forks(
    threads: Callable[[str], Location], runner: Client
) -> None:
    location = threads("lg12")
    location.project = Project.objects.create(folder="/", interpreter="/x", confirmed_at=timezone.now())
    location.save()
    row = opened(location, "appr-waiting").checkpoints.latest("row")
    page = runner.get(row.get_absolute_url()).content.decode()
    assert f"{reverse('resume', args=[row.pk])}#answers" in page and "leaves the thread waiting" in page
    resume = runner.get(reverse("resume", args=[row.pk])).content.decode()
    assert 'name="answer:0"' in resume and "continues the thread itself" in resume
    fork = runner.get(reverse("fork", args=[row.pk])).content.decode()
    assert "continues a copy" in fork and 'name="stop_before"' in fork
    sent = runner.post(reverse("fork-plan", args=[row.pk]), {"answer:0": "{", "type:0": "json"})
    assert "not valid JSON" in sent.content.decode()


def test_a_resume_preselects_nothing_and_its_button_names_the_answer(
    threads: Callable[[str], Location], runner: Client
) -> None:
    location = threads("lg12")
    location.project = Project.objects.create(folder="/", interpreter="/x", confirmed_at=timezone.now())
    location.save()
    row = opened(location, "appr-waiting").checkpoints.latest("row")
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
