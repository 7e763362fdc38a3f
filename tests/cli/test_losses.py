"""How the terminal accepts losses and says which task is which."""

from typing import Any

import pytest
from django.core.management.base import CommandError

from tests.forms.samples import crew, task
from viewer.cli.arguments.losses import answers_of, loss_lines
from viewer.jobs.spool import Options

CONTENTS = crew([task(1, "done"), task(2)], {}, [{"id": "agent-1", "role": "Writer"}])


def answers(*match: str, accept: bool = False) -> Options:
    return answers_of({"match": list(match), "accept_losses": accept}, CONTENTS)


def test_nothing_is_accepted_before_it_is_said() -> None:
    assert answers() == {"accepted": []}
    assert answers(accept=True) == {"accepted": ["*"]}


def test_a_saved_task_is_named_by_its_number_or_id_and_an_agent_by_its_id() -> None:
    told = answers("1=-", "task-2=3", "agent-1=Editor = chief")
    assert told["matches"] == {"task-1": "-", "task-2": "3", "agent-1": "Editor = chief"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1", "needs SAVED"),
        ("=2", "needs SAVED"),
        ("1=", "needs SAVED"),
        ("3=1", "no task 3"),
        ("x=1", "agent x"),
    ],
)
def test_a_match_without_sense_is_refused(text: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        answers(text)


def test_each_loss_has_a_line() -> None:
    part: dict[str, Any] = {"what": "tools", "name": "search", "task": 2, "agent": "", "fate": "lost"}
    assert list(loss_lines({"components": [part, {**part, "fate": "project"}]})) == [
        "Lost: task 2: tool search"
    ]
    assert list(loss_lines(None)) == []
