"""Forms of answers: which an interrupt's value suggests, and the answer that each makes."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from viewer.engines.langgraph.plan import asked_question, suggested
from viewer.engines.plan import OpenQuestion
from viewer.models import Job, Location, Question
from viewer.web.launch.conversations import AnswersForm

ACTION = {"action": "refund", "args": {"order": 4411, "amount": 12.5, "note": "late"}}
CONFIG = {f"allow_{name}": True for name in ("accept", "edit", "respond", "ignore")}
HUMAN = {"action_request": ACTION, "config": CONFIG, "description": "Refund?"}
REVIEW = {
    "action_requests": [{"name": "refund", "args": {"order": 4411}}],
    "review_configs": [{"allowed_decisions": ["approve", "edit", "reject"]}],
}
SCHEMA = {
    "question": "Where to?",
    "schema": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "enum": ["Ulm", "Bonn"]},
            "nights": {"type": "integer", "default": 2},
            "breakfast": {"type": "boolean"},
        },
        "required": ["city"],
    },
}


def labels(value: Any, prompt: Any = "") -> list[str]:
    return [option.label for option in suggested(value, prompt)]


def sent(value: Any, data: Mapping[str, str], prompt: str = "") -> AnswersForm:
    query = QueryDict(mutable=True)
    query.update(data)
    return AnswersForm(query, [OpenQuestion("", prompt, suggested(value, prompt))])


def answer(value: Any, data: Mapping[str, str], prompt: str = "") -> Any:
    form = sent(value, data, prompt)
    assert form.is_valid(), form.errors
    return form.answers[""]


def test_each_shape_suggests_its_options() -> None:
    assert labels(HUMAN) == labels([HUMAN]) == ["accept", "edit", "respond", "ignore"]
    assert labels({**HUMAN, "config": {"allow_ignore": True}}) == ["ignore"]
    assert labels(REVIEW) == ["approve", "edit", "reject"]
    assert labels({"options": ["red", 2]}) == ["red", "2"]
    assert labels({"choices": [{"label": "Soon", "value": {"days": 2}}]}) == ["Soon"]
    assert labels(SCHEMA) == ["form"]
    assert labels({}, "Draft is done. Do you approve it?") == ["Yes", "No"]
    assert labels({}, "Send it? (y/n)") == ["y", "n"]


@pytest.mark.parametrize("prompt", ["Why?", "Is it red or blue?", "Done", "Your name?", {"is": "?"}])
def test_any_other_question_suggests_nothing(prompt: Any) -> None:
    assert labels(prompt, prompt) == []


def test_a_human_interrupt_is_answered_in_its_own_shape() -> None:
    assert answer(HUMAN, {"choice:0": "accept"}) == {"type": "accept", "args": None}
    assert answer([HUMAN], {"choice:0": "ignore"}) == [{"type": "ignore", "args": None}]
    edited = {"part:0:1:0": "4412", "part:0:1:1": "10.0", "part:0:1:2": "very late"}
    args = {"order": 4412, "amount": 10.0, "note": "very late"}
    made = {"type": "edit", "args": {"action": "refund", "args": args}}
    assert answer([HUMAN], {"choice:0": "edit", **edited}) == [made]
    assert answer(HUMAN, {"choice:0": "respond", "part:0:2:0": "why?"}) == {
        "type": "response",
        "args": "why?",
    }


def test_a_review_is_answered_by_a_decision_for_each_call() -> None:
    assert answer(REVIEW, {"choice:0": "approve"}) == {"decisions": [{"type": "approve"}]}
    assert answer(REVIEW, {"choice:0": "edit", "part:0:1:0": "1"}) == {
        "decisions": [{"type": "edit", "edited_action": {"name": "refund", "args": {"order": 1}}}]
    }
    two = {"action_requests": [{}, {}], "review_configs": REVIEW["review_configs"]}
    assert answer(two, {"choice:0": "reject"}) == {"decisions": [{"type": "reject"}] * 2}


def test_a_schema_gives_typed_fields() -> None:
    given = {"choice:0": "form", "part:0:0:0": "Ulm", "part:0:0:1": "3", "part:0:0:2": "true"}
    assert answer(SCHEMA, given) == {"city": "Ulm", "nights": 3, "breakfast": True}
    assert answer(SCHEMA, {**given, "part:0:0:2": ""}) == {"city": "Ulm", "nights": 3}
    for name, wrong in (("part:0:0:0", ""), ("part:0:0:0", "Rome"), ("part:0:0:1", "many")):
        form = sent(SCHEMA, {**given, name: wrong})
        assert not form.is_valid() and name in form.errors and form.answers == {}


def test_a_redacted_argument_has_to_be_typed() -> None:
    secret = {"action_request": {"action": "call", "args": {"key": "[redacted]"}}, "config": CONFIG}
    form = sent(secret, {"choice:0": "edit", "part:0:1:0": "[redacted]"})
    assert not form.is_valid() and form.answers == {}


def test_every_answer_that_needs_no_field_can_be_tried_in_a_fork() -> None:
    (view,) = sent({"options": ["yes", "1", 1]}, {}).views
    assert view.all_choices == 'yes\n"1"'
    (view,) = sent({}, {}, "Publish?").views
    assert view.all_choices == "true\nfalse" and [one.sent for one in view.options] == ["true", "false"]


def test_a_question_that_was_cut_has_no_form() -> None:
    assert asked_question("Refund?", {"output": '{"action', "is_cut": True}) is None
    assert asked_question("Refund?", {"output": "{"}) is None


def test_the_inbox_shows_the_form_and_sends_its_answer(runner: Client, db: None, tmp_path: Any) -> None:
    location = Location.objects.create(path=str(tmp_path), store_kind="sqlite", engine="langgraph")
    job = Job.objects.create(
        kind="fork", location=location, branch="b", status="running", started_at=timezone.now()
    )
    job.folder.mkdir(parents=True)
    output = '{"action_request": {"action": "pay", "args": {"sum": 3}}, "config": {"allow_edit": true}}'
    context = {"node": "pay", "interrupt": "a1", "output": output}
    question = Question.objects.create(job=job, number=1, kind="interrupt", prompt="Pay?", context=context)
    page = runner.get(question.get_absolute_url()).content.decode()
    assert 'name="part:0:0:0"' in page and "with these arguments" in page and "this fork only" in page
    address = reverse("question-answer", args=[job.pk, 1])
    data = {"answer:0": "left over", "type:0": "text", "choice:0": "edit", "part:0:0:0": "much"}
    assert "must be a whole number" in runner.post(address, data).content.decode()
    assert Question.objects.get().is_waiting
    runner.post(address, {**data, "part:0:0:0": "4"})
    made = '{"type": "edit", "args": {"action": "pay", "args": {"sum": 4}}}'
    assert Question.objects.get().answer == made
