"""Questions about tool calls: which answers are valid, and which calls are the same."""

import json
from pathlib import Path

import pytest

from forkline_runner.calls import Decision, ToolCalls
from forkline_runner.recorded import canonical
from forkline_runner.reporting import Reporter, as_text
from tests.jobs.conftest import MakeJob
from viewer.engines.answer_schema import AnswerInvalid
from viewer.engines.runner_protocol import Tools
from viewer.host.jobs.spool import Spool
from viewer.launching.start import send_answer
from viewer.models import Question
from viewer.redaction import MARKER

CHOICES = ["call", "refuse"]


@pytest.fixture
def question(make_job: MakeJob) -> Question:
    job = make_job("asks.py")
    job.folder.mkdir(parents=True, exist_ok=True)
    context = {"tool": "send_mail", "output": '{"to": "ada"}', "choices": CHOICES}
    return Question.objects.create(
        job=job, number=1, kind="tool_call", prompt="Call send_mail?", context=context
    )


@pytest.mark.parametrize("text", ["", "recorded", "yes", "[1]", "{", json.dumps({"to": MARKER})])
def test_what_is_no_choice_and_no_arguments_is_refused(question: Question, text: str) -> None:
    with pytest.raises(AnswerInvalid):
        send_answer(question, text, None)
    assert Question.objects.get().is_waiting


@pytest.mark.parametrize("text", [*CHOICES, " call\n", '{"to": "bob"}'])
def test_a_choice_or_arguments_are_the_answer(question: Question, text: str) -> None:
    assert send_answer(question, text, None)
    assert Question.objects.get().answer == text.strip()


def test_a_tool_whose_code_calls_it_again_is_decided_about_again(tmp_path: Path) -> None:
    tools = Tools(choices={}, recorded=[], is_known=True, dry_run=False)
    calls = ToolCalls(tools, Reporter(Spool(tmp_path)))
    tool, run, arun = object(), object(), object()
    with calls.calling(tool, arun):
        assert calls.is_decided(tool, run)
        assert not calls.is_decided(tool, arun) and not calls.is_decided(object(), run)
    assert not calls.is_decided(tool, run)


@pytest.mark.parametrize(
    "same",
    [
        {"b": None, "a": 1, "to": "ada"},
        {"to": "ada", "a": 1, "security_context": {"agent": "x"}},
        '{"to": "ada", "a": 1}',
        {"to": "ada", "a": 1.0},
    ],
)
def test_calls_are_the_same_in_any_order_and_without_what_engines_add(same: object) -> None:
    assert canonical(same) == canonical({"a": 1, "to": "ada"})


@pytest.mark.parametrize(
    ("one", "other"), [({"a": {"b": None}}, {"a": {}}), ({"a": [1]}, {"a": [True]}), ({"a": 1}, {"a": 1.5})]
)
def test_values_inside_an_argument_differ(one: object, other: object) -> None:
    assert canonical(one) != canonical(other)
    assert canonical({"a": [{"b": 2}]}) == canonical('{"a": [{"b": 2.0}]}')


@pytest.mark.parametrize(
    "other", [{"a": 2, "to": "ada"}, {"to": "ada"}, {"a": "1", "to": "ada"}, "ada", None, [1]]
)
def test_calls_with_other_values_differ(other: object) -> None:
    assert canonical(other) != canonical({"a": 1, "to": "ada"})


HELD: list[object] = []
HELD.append(HELD)


@pytest.mark.parametrize("odd", [{(1, 2): 3}, {1: "a", "b": 2}, HELD])
def test_arguments_that_json_cannot_hold_are_decided_about(tmp_path: Path, odd: object) -> None:
    tools = Tools(choices={}, recorded=[], is_known=True, dry_run=False)
    spool = tmp_path / "spool"
    spool.mkdir()
    given = {"by_hand": odd}
    assert ToolCalls(tools, Reporter(Spool(spool))).decide("search", given) == Decision(given)
    assert canonical(given) == canonical({"by_hand": odd}) and as_text(given)
