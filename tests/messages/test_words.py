"""Words as plain data: filled, stored, and found again."""

import json

import pytest

from forkline_runner import messages as child
from viewer.messages.message import MOST_PLACES, Worded, Words, words_from

SMALL = Words("It has %(size)s bytes.", {"size": "1,000"})


def test_a_text_is_filled_with_its_values() -> None:
    assert str(SMALL) == "It has 1,000 bytes."
    assert str(Words("%(count)d of %(name)r: 50%%", {"count": 2, "name": "a"})) == "2 of 'a': 50%"
    assert str(Worded("Task %(position)d.", position=2)) == "Task 2."


def test_words_can_stand_in_words_and_are_translated_there() -> None:
    words = Words("Wait. %(why)s", {"why": SMALL})
    german = {"Wait. %(why)s": "Warte. %(why)s", SMALL.text: "Es hat %(size)s Bytes."}
    assert words.filled(german.__getitem__) == "Warte. Es hat 1,000 Bytes."


@pytest.mark.parametrize("text", ["100%", "50 %s", "%(size)", "%", "%(other)s", "%(size)999999999s"])
def test_a_text_that_cannot_be_filled_is_shown_as_it_is(text: str) -> None:
    assert str(Words(text)) == text
    assert str(Words(text, {"size": "x"})) == text


def test_signs_in_a_value_are_only_its_text() -> None:
    words = Words("%(first)s and %(second)s", {"first": "%(second)s %s", "second": "%(first)s %%"})
    assert str(words) == "%(second)s %s and %(first)s %%"


def test_sentences_can_stand_in_words_and_are_translated_there() -> None:
    words = Words("Choose. %(questions)s", {"questions": [SMALL, Words("It is late.")]})
    assert str(words) == "Choose. It has 1,000 bytes. It is late."
    german = {
        words.text: "Wähle. %(questions)s",
        SMALL.text: "Es hat %(size)s Bytes.",
        "It is late.": "Spät.",
    }
    assert words.filled(german.__getitem__) == "Wähle. Es hat 1,000 Bytes. Spät."
    assert words_from(json.loads(json.dumps(words.plain())), str(words)) == words


def test_the_child_fills_words_as_they_are_filled_here() -> None:
    inner = [child.words("It has %(size)s bytes.", size=5), child.words("It is 100% late.")]
    words = child.words("%(count)d of %(name)r: 50%%. %(why)s", count=2, name="a", why=inner)
    assert child.english(words) == "2 of 'a': 50%. It has 5 bytes. It is 100% late."
    found = words_from(json.loads(json.dumps(words)), child.english(words))
    assert found.values["why"] == [Words("It has %(size)s bytes.", {"size": 5}), Words("It is 100% late.")]


def test_words_are_found_again_as_they_were_stored() -> None:
    words = Words("Wait. %(why)s", {"why": SMALL, "after": 2.5})
    assert words_from(json.loads(json.dumps(words.plain())), str(words)) == words


@pytest.mark.parametrize(
    "plain",
    [
        {"text": "Something else.", "values": {}},
        *({}, [], None, "text", {"text": 1, "values": {}}, {"text": "x"}, {"text": "x", "values": []}),
        {"text": "%(a)s", "values": {"a": None}},
        {"text": "%(a)s", "values": {"a": {"text": 1}}},
        {"text": "%(a)s", "values": {"a": ["x"]}},
        {"text": "%(a)s", "values": {"a": [[{"text": "x", "values": {}}]]}},
        {"text": "%(a)s" * (MOST_PLACES + 1), "values": {"a": "x"}},
    ],
)
def test_what_are_no_words_are_shown_in_english(plain: object) -> None:
    assert words_from(plain, "It is 100% broken.") == Words("It is 100% broken.")


def test_words_are_not_followed_into_any_depth() -> None:
    deep: dict[str, object] = {"text": "x", "values": {}}
    for _level in range(500):
        deep = {"text": "%(a)s", "values": {"a": deep}}
    assert words_from(deep, "English") == Words("English")
