"""Labels that forms, pages and the terminal share."""

import pytest
from django.utils.translation import override

from viewer.engines.plan import Action, EditRefused, Reason
from viewer.launching.labels import (
    ACTIONS,
    REASONS,
    SIGNS,
    action_label,
    action_sign,
    asker_label,
    reason_label,
    stale_text,
)
from viewer.messages.catalog import CATALOG
from viewer.messages.message import UserFacingError, UserMessage
from viewer.messages.translation import translate


def test_a_message_is_shown_in_the_language_of_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    # A text that Django itself has translated.
    monkeypatch.setitem(CATALOG, "test.and", "and")
    with override("de"):
        assert translate(UserMessage("test.and")) == translate(UserFacingError("test.and")) == "und"


def test_a_refusal_has_its_values_also_without_translation() -> None:
    refused = EditRefused("edit.hold_of_unfinished_task", position=2)
    text = "Task 2 has not finished, so it has no output to keep."
    assert translate(refused) == str(refused) == text
    assert (translate(None), translate(ValueError("x"))) == ("", "x")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["topic"], "its output was produced with the former topic"),
        (["topic", "year", "words"], "its output was produced with the former topic, year and words"),
    ],
)
def test_stale_inputs_are_named_in_a_sentence(names: list[str], text: str) -> None:
    assert stale_text(names) == text


def test_every_action_and_reason_has_a_label() -> None:
    assert set(ACTIONS) == set(SIGNS) == set(Action)
    assert set(REASONS) == set(Reason)


def test_an_unknown_code_is_shown_unchanged() -> None:
    assert (action_label("delegated"), reason_label("delegated")) == ("delegated", "delegated")
    assert (action_label("kept"), action_sign("kept"), action_sign("delegated")) == ("reused", "✓", "·")


@pytest.mark.parametrize(
    ("context", "label"),
    [
        ({"position": 2, "agent": "Writer"}, "Task 2, Writer"),
        ({"method": "draft"}, "Method draft"),
        ({"node": "review"}, "Node review"),
        ({"agent": "Writer"}, "Writer"),
        ({}, "The run"),
    ],
)
def test_a_question_names_the_unit_that_asks_it(context: dict[str, object], label: str) -> None:
    assert asker_label(context) == label
