"""How the terminal accepts losses, and matches saved tasks to the project's."""

import pytest
from django.core.management.base import CommandError

from tests.forms.samples import crew, task
from viewer.cli.options import accepted_in, answers_in

CONTENTS = crew([task(1, "done"), task(2)], {}, [{"id": "agent-1", "role": "Writer"}])


def answers(*match: str) -> dict[str, str]:
    return answers_in({"match": list(match)}, CONTENTS)


def test_losses_are_accepted_only_with_the_argument() -> None:
    assert accepted_in({"accept_losses": False}).losses == ""
    assert accepted_in({"accept_losses": True}).losses == "*"


def test_a_saved_task_is_named_by_its_number_or_id_and_an_agent_by_its_id() -> None:
    given = answers("1=-", "task-2=3", "agent-1=Editor = chief")
    assert given == {
        "task-1": "-",
        "task-2": "3",
        "agent-1": "Editor = chief",
    }


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
def test_an_invalid_match_is_refused(text: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        answers(text)
