"""The words that forms, pages and the terminal share."""

import pytest
from django.utils.translation import override

from viewer.engines.plan import Action, EditRefused, Reason
from viewer.messages.labels import (
    ACTIONS,
    REASONS,
    SIGNS,
    action_sign,
    action_word,
    reason_words,
    stale_words,
    told,
)
from viewer.messages.message import Worded


def test_a_refusal_is_told_in_the_language_of_its_reader() -> None:
    with override("de"):
        # A text that Django itself has translated.
        assert told(Worded("and")) == "und"


def test_a_refusal_names_what_it_is_about_also_where_nobody_translates_it() -> None:
    refused = EditRefused("Task %(position)d has not finished.", position=2)
    assert told(refused) == str(refused) == "Task 2 has not finished."


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], ""),
        (["topic"], "its text was made with the former topic"),
        (["topic", "year", "words"], "its text was made with the former topic, year and words"),
    ],
)
def test_stale_inputs_are_named_in_a_sentence(names: list[str], words: str) -> None:
    assert stale_words(names) == words


def test_every_action_and_reason_has_words() -> None:
    assert set(ACTIONS) == set(SIGNS) == set(Action)
    assert set(REASONS) == set(Reason)


def test_a_newer_code_is_shown_as_it_is() -> None:
    assert (action_word("delegated"), reason_words("delegated")) == ("delegated", "delegated")
    assert (action_word("kept"), action_sign("kept"), action_sign("delegated")) == ("kept", "✓", "·")
