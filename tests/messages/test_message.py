"""Messages as plain data are filled, translated, stored and read."""

import json
import math
from typing import Any

import pytest

from forkline_runner import reporting as runner
from viewer.messages.catalog import CATALOG
from viewer.messages.message import UserFacingError, UserMessage, message_from, plain_text, redacted_message

LARGE = UserMessage("store.file_too_large", {"size": "1,000", "most": "500"})
TEXT = "It has 1,000 bytes. The limit is 500."


def stored(message: UserMessage) -> UserMessage | None:
    return message_from(json.loads(json.dumps(message.as_data())))


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add two texts to the catalogue."""
    monkeypatch.setitem(CATALOG, "test.two", "%(first)s and %(second)s")
    monkeypatch.setitem(CATALOG, "test.signs", "%(count)d of %(name)r: 50%%, %(missing)s")


def test_a_text_is_filled_with_its_values(texts: None) -> None:
    assert str(LARGE) == TEXT
    signs = UserMessage("test.signs", {"count": 2, "name": "a"})
    assert str(signs) == "2 of 'a': 50%, %(missing)s"
    assert str(UserFacingError("store.file_too_large", size="1,000", most="500")) == TEXT
    assert UserFacingError(LARGE).message == LARGE


def test_placeholders_in_a_value_are_only_its_text(texts: None) -> None:
    message = UserMessage("test.two", {"first": "%(second)s %s", "second": "%(first)s %%"})
    assert str(message) == "%(second)s %s and %(first)s %%"


@pytest.mark.parametrize("text", ["100%", "50 %s", "%(size)", "%", "%(other)s", "%(size)999999999s"])
def test_a_plain_text_is_shown_unchanged(text: str) -> None:
    assert str(plain_text(text)) == text
    assert stored(plain_text(text)) == plain_text(text) == message_from(text)


def test_messages_can_be_values_and_are_translated_there() -> None:
    message = UserMessage("import.being_written", {"why": [LARGE, UserMessage("store.empty")]})
    german = {
        CATALOG["import.being_written"]: "Warte. %(why)s",
        CATALOG["store.file_too_large"]: "Es hat %(size)s Bytes.",
        CATALOG["store.empty"]: "Es ist leer.",
    }
    assert message.text(german.__getitem__) == "Warte. Es hat 1,000 Bytes. Es ist leer."
    assert stored(message) == message


def test_a_message_survives_storage() -> None:
    message = UserMessage("import.being_written", {"why": LARGE, "after": 2.5})
    assert stored(message) == message


def test_a_code_of_another_version_is_shown_with_its_values() -> None:
    message = stored(UserMessage("job.of_tomorrow", {"path": "/srv/a", "why": LARGE}))
    assert str(message) == (
        f"Message job.of_tomorrow of another version of Forkline: path=/srv/a, why={TEXT}"
    )
    assert runner.english(runner.message("job.of_tomorrow", path="/srv/a")) == (
        "job.of_tomorrow {'path': '/srv/a'}"
    )


def test_the_runner_fills_texts_as_the_web_side_does() -> None:
    assert runner.texts().items() <= CATALOG.items()
    sentences = [
        runner.message("crewai.task_text_unknown", position=2, title="50%"),
        runner.message("crewai.match_choices", asked=2, choices="1"),
    ]
    message = runner.message("crewai.project_crew_differs", entry_point="a:b", questions=sentences)
    found = message_from(json.loads(json.dumps(message)))
    assert runner.english(message) == str(found)
    unknown = runner.message("crewai.unknown_project_agent", unknown="Printer")
    assert runner.english(unknown) == str(message_from(dict(unknown)))
    assert runner.english(runner.plain_text("50%")) == "50%"


@pytest.mark.parametrize(
    "data",
    [
        *({}, [], None, "", 5, {"code": 1, "values": {}}, {"code": "x"}, {"code": "x", "values": []}),
        {"text": "A text of the version before.", "values": {}},
    ],
)
def test_other_data_is_no_message(data: object) -> None:
    assert message_from(data) is None


@pytest.mark.parametrize("value", [None, {"code": 1}, {"text": "x", "values": {}}])
def test_a_value_of_none_is_omitted(value: object) -> None:
    assert message_from({"code": "store.empty", "values": {"a": value}}) == UserMessage("store.empty")


def test_messages_are_nested_to_a_limited_depth() -> None:
    deep: dict[str, object] = {"code": "import.being_written", "values": {}}
    for _level in range(500):
        deep = {"code": "import.being_written", "values": {"why": deep}}
    found, depth = message_from(deep), 0
    while isinstance(found, UserMessage):
        found, depth = found.values.get("why"), depth + 1  # type: ignore[assignment]
    assert depth < math.log2(500)


def test_secrets_are_redacted_in_values_and_in_the_complete_text() -> None:
    def hide(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: hide(item) for name, item in value.items()}
        return value.replace("1,000", "[redacted]")

    assert redacted_message(LARGE, hide) == UserMessage(
        "store.file_too_large", {"size": "[redacted]", "most": "500"}
    )

    def hide_in_text(value: Any) -> Any:
        return value.replace("has 1,000", "…") if isinstance(value, str) else value

    # Only the complete text contains this secret.
    assert redacted_message(LARGE, hide_in_text) == plain_text("It … bytes. The limit is 500.")
