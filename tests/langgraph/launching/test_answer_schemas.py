"""Answers with a JSON schema: the form that it gives, what fits it, and schemas that are hostile."""

import json
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.http import QueryDict
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.terminal import Terminal
from viewer.cli.options import answers_of
from viewer.engines.answer_schema import AnswerInvalid, as_text, check_answer, fits, options_of, parse_answer
from viewer.engines.langgraph.contents import contents_of
from viewer.engines.langgraph.plan import open_questions, plan, suggested
from viewer.engines.plan import EditRefused, Edits, OpenQuestion
from viewer.models import Job, Location, Question
from viewer.web.launch.conversations import AnswersForm

# What pydantic makes of a model with another model, an enumeration and an optional text.
DECISION: dict[str, Any] = {
    "$defs": {
        "Priority": {"enum": ["low", "high"], "title": "Priority", "type": "string"},
        "Address": {
            "properties": {"city": {"title": "City", "type": "string"}},
            "required": ["city"],
            "title": "Address",
            "type": "object",
        },
    },
    "properties": {
        "kind": {"const": "decision", "type": "string"},
        "is_approved": {"title": "Approved", "type": "boolean"},
        "amount": {"maximum": 100, "minimum": 1, "type": "integer"},
        "priority": {"$ref": "#/$defs/Priority", "default": "low"},
        "address": {"$ref": "#/$defs/Address"},
        "tags": {"items": {"type": "string"}, "type": "array"},
        "reason": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "day": {"format": "date", "type": "string"},
    },
    "required": ["kind", "is_approved", "amount", "address", "tags"],
    "title": "Decision",
    "type": "object",
}
GIVEN = {"kind": "decision", "is_approved": True, "amount": 3, "address": {"city": "Ulm"}, "tags": []}
TYPED = {"is_approved": "true", "amount": "3", "priority": "low", "address.city": "Ulm"}


def form(schema: Mapping[str, Any], choice: str, typed: Mapping[str, str]) -> AnswersForm:
    """The form of a question, with what was typed into the fields of its only option, by their paths."""
    question = OpenQuestion("", "Why?", suggested("Why?", "Why?", schema), schema)
    query = QueryDict(mutable=True)
    query["choice:0"] = choice
    fields = [
        (".".join(map(str, one.path)), f"part:0:{position}:{number}")
        for position, option in enumerate(question.options)
        for number, one in enumerate(option.fields)
    ]
    query.update({name: typed[path] for path, name in fields if path in typed})
    if "answer" in typed and not choice:
        query["answer:0"] = typed["answer"]
    return AnswersForm(query, [question])


def answer(schema: Mapping[str, Any], choice: str, **typed: str) -> Any:
    sent = form(schema, choice, typed)
    assert sent.is_valid(), sent.errors
    return sent.answers[""]


def test_a_model_gives_a_field_for_each_part_with_its_type() -> None:
    assert answer(DECISION, "Decision", **TYPED) == {**GIVEN, "priority": "low"}
    more = {**TYPED, "tags": "a\nb", "reason": "why", "day": "2024-01-02", "priority": "high"}
    assert answer(DECISION, "Decision", **more) == {
        **GIVEN,
        "tags": ["a", "b"],
        "reason": "why",
        "day": "2024-01-02",
        "priority": "high",
    }


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("is_approved", ""),
        ("is_approved", "perhaps"),
        ("amount", "0"),
        ("amount", "many"),
        ("priority", "middle"),
        ("address.city", ""),
        ("day", "tomorrow"),
    ],
)
def test_a_part_that_does_not_fit_is_an_error_of_its_field(path: str, text: str) -> None:
    sent = form(DECISION, "Decision", {**TYPED, path: text})
    assert not sent.is_valid() and sent.answers == {}
    (option,) = sent.questions[0].options
    number = [".".join(map(str, one.path)) for one in option.fields].index(path)
    assert list(sent.errors) == [f"part:0:0:{number}"]


def test_values_and_variants_are_options() -> None:
    assert answer({"enum": ["yes", 2]}, "2") == 2
    assert answer({"type": "boolean"}, "No") is False
    assert answer({"type": ["boolean", "null"]}, "No value") is None
    variants = {"oneOf": [DECISION, {"title": "Skip", "properties": {"kind": {"const": "skip"}}}]}
    assert [one.label for one in options_of({**DECISION, **variants})] == ["Decision", "Skip"]
    several = {"anyOf": [{"properties": {name: {"type": "string"}}} for name in "ab"]}
    assert [one.label for one in options_of(several)] == ["form", "form 2"]
    assert answer({"type": "string", "title": "Code"}, "Code", **{"": "007"}) == "007"


def test_a_question_with_its_own_options_loses_those_that_do_not_fit() -> None:
    value = {"options": ["yes", "no", "later"]}
    schema = {"not": {"const": "later"}}
    assert [one.label for one in suggested(value, "", schema)] == ["yes", "no"]


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5", {"type": "string"}, "5"),
        ('"5"', {"type": "string"}, "5"),
        ("5", {"type": "integer"}, 5),
        ("5", {}, 5),
        ("null", {"enum": ["null"]}, "null"),
        ("yes", {"enum": ["yes", "no"]}, "yes"),
        (json.dumps(GIVEN), DECISION, GIVEN),
        ("2024-01-02T03:04:05Z", {"type": "string", "format": "date-time"}, "2024-01-02T03:04:05Z"),
    ],
)
def test_a_text_is_the_value_that_fits_and_a_runner_reads_the_same(
    text: str, schema: Mapping[str, Any], value: Any
) -> None:
    assert parse_answer(text, schema) == value
    written = as_text(value)
    try:
        read = json.loads(written)
    except ValueError:
        read = written
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "schema", "problem"),
    [
        ("many", {"type": "integer"}, "JSON type integer"),
        ("12", {"type": "string", "pattern": "^[0-9]{3}$"}, "does not match"),
        ("perhaps", {"enum": ["yes", "no"]}, 'one of: "yes", "no"'),
        ("{}", DECISION, "“kind” of the answer: This value is missing."),
        (json.dumps({**GIVEN, "address": {}}), DECISION, "“address.city” of the answer"),
        (json.dumps({**GIVEN, "amount": 101}), DECISION, "maximum of 100"),
        ('{"b": 1}', {"patternProperties": {"^a": {}}, "additionalProperties": False}, "not allowed"),
        ("[1, 1]", {"type": "array", "uniqueItems": True}, "equal items"),
        ("25:00", {"type": "string", "format": "time"}, "is not a 'time'"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(text: str, schema: Mapping[str, Any], problem: str) -> None:
    with pytest.raises(AnswerInvalid, match=re.escape(problem)):
        parse_answer(text, schema)


ENDLESS = {f"d{one}": {"allOf": [{"$ref": f"#/$defs/d{one + 1}"}] * 2} for one in range(40)}
ENDLESS_CHOICES = {f"d{one}": {"anyOf": [{"$ref": f"#/$defs/d{one + 1}"}] * 2} for one in range(40)}
HOSTILE: list[Any] = [
    {"pattern": "^(a+)+$"},
    {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
    {"pattern": "(?=a)(a+)+$"},
    {"pattern": 7},
    {"$ref": "#"},
    {"$ref": "#/$defs/nothing"},
    {"allOf": [{"$ref": "#"}]},
    {"properties": {"a": {"$ref": "#"}}, "required": ["a"], "type": "object"},
    {"$defs": {**ENDLESS, "d40": {"type": "string"}}, "$ref": "#/$defs/d0"},
    {"$schema": ["x"], "type": 7},
    {"$schema": "http://127.0.0.1:1/x", "properties": 3, "required": 4, "enum": 5},
    {"multipleOf": 0},
    {"uniqueItems": True, "items": {"enum": [{"a": one} for one in range(3000)]}},
    {"unevaluatedProperties": False, "patternProperties": {"(a+)+$": True}},
    {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    {"properties": {str(one): {"type": "string"} for one in range(1000)}},
    {"title": {"a": 1}, "type": "object", "properties": {"a": None, "b": {"title": []}}},
    {"$defs": {**ENDLESS_CHOICES, "d40": {"type": "string"}}, "$ref": "#/$defs/d0"},
    {"items": {"type": "string"}},
]


@pytest.mark.parametrize("schema", HOSTILE, ids=range(len(HOSTILE)))
def test_no_schema_stalls_or_breaks_the_form(schema: Any) -> None:
    texts = ["a" * 40 + "!", json.dumps({"a" * 40 + "!": 1}), json.dumps([{}] * 20_000), "1e400"]
    started = time.thread_time()
    for text in texts:
        # Neither raises anything else, and it says why.
        try:
            parse_answer(text, schema)
        except AnswerInvalid as invalid:
            assert str(invalid)
    question = OpenQuestion("", "Why?", suggested("Why?", "Why?", schema), schema)
    AnswersForm(QueryDict("choice:0=form"), [question]).is_valid()
    assert time.thread_time() - started < 5


def test_a_long_answer_with_many_wrong_parts_is_refused() -> None:
    text = json.dumps([{}] * 5_000)
    with pytest.raises(AnswerInvalid, match="of the JSON type string"):
        parse_answer(text, {"type": "array", "items": {"type": "string"}})


def test_no_schema_makes_a_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        for schema in ({"$ref": address}, {"$id": address, "$ref": "other.json"}, {"$schema": address}):
            assert fits(1, schema) and options_of(schema) == []
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def waiting(schema: Any) -> Any:
    """The contents of a checkpoint whose only task waits for an answer of this schema."""
    asked = {"value": "Code?", "id": "a" * 32, "response_schema": schema}
    fields = {"__type__": "langgraph.types.Interrupt", "fields": asked}
    write = {"task_id": "t", "index": -3, "channel": "__interrupt__", "value": [fields]}
    checkpoint = {"channel_values": {"branch:to:ask": None}, "versions_seen": {}, "channel_versions": {}}
    body = {"checkpoint_id": "c", "checkpoint_ns": "", "checkpoint": checkpoint, "writes": [write]}
    return contents_of(body)


def test_a_fork_with_an_answer_that_does_not_fit_is_refused() -> None:
    contents = waiting({"type": "string", "pattern": "^[0-9]+$"})
    (question,) = open_questions(contents)
    assert question.schema == {"type": "string", "pattern": "^[0-9]+$"}
    for name in ("", "a" * 32):
        # The terminal types it as the schema says.
        typed = answers_of([f"{name}=5" if name else "5"], [question])
        assert typed == {name: "5"} and plan(contents, Edits(answers=typed))
        for wrong in ("five", 5, None):
            with pytest.raises(EditRefused):
                plan(contents, Edits(answers={name: wrong}))


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "dialect",
    [
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-07/schema#",
    ],
)
def test_a_part_with_a_dialect_of_its_own_has_the_same_limits(dialect: str) -> None:
    slow = {"type": "string", "pattern": "^(a+)+$"}
    hostile = "a" * 60 + "!"
    check_answer({"a": hostile}, {"properties": {"a": {"$schema": dialect, **slow}}})
    assert not fits(hostile, {"$schema": dialect, **slow})
    # A reference to the whole schema checks the same as the schema.
    whole = {"$schema": dialect, "properties": {"next": {"$ref": "#"}, "name": {"type": "string"}}}
    assert fits({"next": {"name": "a"}}, whole) and not fits({"next": {"name": 1}}, whole)


@pytest.mark.parametrize("schema", [{"enum": 5}, {"required": "name"}, {"enum": None}])
def test_a_check_that_is_no_list_refuses_no_answer(schema: Mapping[str, Any]) -> None:
    for given in ({}, {"n": 1}, "text", 5, None):
        check_answer(given, schema)


@pytest.fixture
def question(db: None, tmp_path: Path) -> Question:
    """A question of a running job."""
    location = Location.objects.create(path=str(tmp_path), store_kind="sqlite", engine="langgraph")
    job = Job.objects.create(
        kind="fork", location=location, branch="b", status="running", started_at=timezone.now()
    )
    job.folder.mkdir(parents=True)
    context = {"node": "ask", "interrupt": "a1", "schema": json.dumps(DECISION)}
    return Question.objects.create(job=job, number=1, kind="interrupt", prompt="Decide?", context=context)


def test_the_terminal_refuses_what_does_not_fit(question: Question, terminal: Terminal) -> None:
    (listed,) = terminal.document("answer")["questions"]
    assert json.loads(listed["context"]["schema"]) == DECISION
    for wrong in ("yes", "", '{"kind": "decision"}', json.dumps({**GIVEN, "amount": "3"})):
        with pytest.raises(CommandError):
            terminal.text("answer", question.job_id, "--text", wrong)
    assert Question.objects.get().is_waiting
    terminal.text("answer", question.job_id, "--text", json.dumps(GIVEN))
    assert json.loads(Question.objects.get().answer) == GIVEN


def test_the_inbox_refuses_what_does_not_fit(question: Question, runner: Client) -> None:
    page = runner.get(question.get_absolute_url()).content.decode()
    assert 'name="part:0:0:0"' in page and "Approved" in page and "low" in page
    address = reverse("question-answer", args=[question.job_id, 1])
    free = {"answer:0": json.dumps({**GIVEN, "amount": 0}), "type:0": "json"}
    assert "minimum of 1" in runner.post(address, free).content.decode()
    # Without the form's fields, or with a button for an empty answer.
    for sent in ({"text": "yes"}, {"nothing": "1"}):
        runner.post(address, sent)
    assert Question.objects.get().is_waiting
    runner.post(
        address,
        {
            "answer:0": "",
            "choice:0": "Decision",
            "part:0:0:0": "true",
            "part:0:0:1": "3",
            "part:0:0:3": "Ulm",
        },
    )
    assert json.loads(Question.objects.get().answer) == GIVEN
