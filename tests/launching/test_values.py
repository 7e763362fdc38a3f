"""Values as texts of fields: only a person changes their types."""

import json
import math
import time
from typing import Any

import pytest

from viewer.launching.edits import (
    INVALID,
    InvalidValue,
    ValueKind,
    has_redacted_part,
    kind_of,
    parse_value,
    same_value,
    text_of,
)
from viewer.launching.options import parse_limit
from viewer.launching.sweep import value_dimension
from viewer.validation import MAX_CHARACTERS


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("AI", ValueKind.TEXT),
        ("3", ValueKind.TEXT),
        ("", ValueKind.TEXT),
        ("two\nlines ", ValueKind.TEXT),
        (3, ValueKind.WHOLE_NUMBER),
        (-(2**70), ValueKind.WHOLE_NUMBER),
        (0, ValueKind.WHOLE_NUMBER),
        (0.1, ValueKind.NUMBER),
        (3.0, ValueKind.NUMBER),
        (1e300, ValueKind.NUMBER),
        (True, ValueKind.YES_NO),
        (False, ValueKind.YES_NO),
        (["arXiv", "Hacker News"], ValueKind.LIST),
        (["3", "true"], ValueKind.LIST),
        ([1, 2], ValueKind.JSON),
        ([], ValueKind.JSON),
        (["a\nb"], ValueKind.JSON),
        ([" a"], ValueKind.JSON),
        (["a\u2028b"], ValueKind.JSON),
        ({"a": [1, None]}, ValueKind.JSON),
        (None, ValueKind.JSON),
        ("a\0b", ValueKind.JSON),
        ({"ü": "☃ <b>"}, ValueKind.JSON),
    ],
)
def test_a_value_survives_the_form(value: Any, kind: ValueKind) -> None:
    assert kind_of(value) is kind
    back = parse_value(text_of(value, kind), kind)
    assert type(back) is type(value)
    assert same_value(back, value)


def test_line_endings_stay_as_they_were_stored() -> None:
    assert parse_value("a\r\nb", ValueKind.TEXT) == "a\nb"
    assert parse_value("a\r\n\r\n b \r\n", ValueKind.LIST) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("3.5", ValueKind.WHOLE_NUMBER),
        ("", ValueKind.WHOLE_NUMBER),
        ("three", ValueKind.WHOLE_NUMBER),
        ("1_000", ValueKind.WHOLE_NUMBER),
        ("٣", ValueKind.WHOLE_NUMBER),
        ("9" * 400, ValueKind.WHOLE_NUMBER),
        ("nan", ValueKind.NUMBER),
        ("inf", ValueKind.NUMBER),
        ("1e999", ValueKind.NUMBER),
        ("", ValueKind.NUMBER),
        ("yes", ValueKind.YES_NO),
        ("", ValueKind.YES_NO),
        ("{", ValueKind.JSON),
        ("", ValueKind.JSON),
        ("NaN", ValueKind.JSON),
        ("[Infinity]", ValueKind.JSON),
        ("1e999", ValueKind.JSON),
        ("[" * 60 + "]" * 60, ValueKind.JSON),
        ("[" * 100_000, ValueKind.JSON),
        ("9" * 5_000, ValueKind.JSON),
        ("x" * (MAX_CHARACTERS + 1), ValueKind.TEXT),
    ],
)
def test_an_invalid_value_is_refused_with_a_message(text: str, kind: ValueKind) -> None:
    with pytest.raises(INVALID) as refused:
        parse_value(text, kind)
    assert str(refused.value).endswith(".")


def test_half_of_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(InvalidValue, match="UTF-8"):
        parse_value('["caf\\udce9"]', ValueKind.JSON)
    assert parse_value('["\\ud83e\\uddea"]', ValueKind.JSON) == ["🧪"]


def test_invalid_json_names_the_position() -> None:
    with pytest.raises(InvalidValue, match="line 2, column 6"):
        parse_value('{\n "a" 3}', ValueKind.JSON)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("key: [redacted]", ValueKind.TEXT),
        ("[redacted]", ValueKind.TEXT),
        ("a\n[redacted]", ValueKind.LIST),
        ('{"a": "[redacted]"}', ValueKind.JSON),
        ('{"a": "\\u005bredacted]"}', ValueKind.JSON),
        ('{"[redacted]": 1}', ValueKind.JSON),
    ],
)
def test_the_mark_of_a_secret_is_refused_as_a_value(text: str, kind: ValueKind) -> None:
    with pytest.raises(InvalidValue, match="redacted"):
        parse_value(text, kind)


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (1, True), (0, False), ("1", 1), (None, ""), ([], {}), ([1, 2], [2, 1])]
)
def test_equal_values_of_other_types_are_different(one: Any, other: Any) -> None:
    assert not same_value(one, other)


def test_the_order_of_keys_does_not_matter() -> None:
    assert same_value({"a": 1, "b": 2}, {"b": 2, "a": 1})


def test_a_secret_is_found_at_any_depth() -> None:
    assert has_redacted_part({"a": [{"b": "x [redacted] y"}]})
    assert not has_redacted_part({"a": ["redacted"]})


def test_every_accepted_json_value_can_be_encoded() -> None:
    for text in ('{"a": 1e308}', '["\\ud800"]', "1" * 200, '"' + "x" * 1000 + '"'):
        try:
            value = parse_value(text, ValueKind.JSON)
        except InvalidValue:
            continue
        assert json.loads(json.dumps(value, allow_nan=False)) == value
        assert not (isinstance(value, float) and math.isinf(value))


def test_equal_values_of_a_sweep_count_once_in_linear_time() -> None:
    text = json.dumps([1, 1.0, True, {"a": 1, "b": 2}, {"b": 2, "a": 1}, 1, None, "a\r\nb", "a\nb"])
    values = value_dimension("context", "x", ValueKind.JSON, text).values
    assert [json.dumps(value) for value in values] == [
        *("1", "1.0", "true", '{"a": 1, "b": 2}', "null", '"a\\r\\nb"'),
    ]
    many = json.dumps([f"v{number % 20_000}" for number in range(40_000)])
    began = time.thread_time()
    assert len(value_dimension("context", "x", ValueKind.JSON, many).values) == 20_000
    assert time.thread_time() - began < 2


def test_only_line_ends_are_alike() -> None:
    assert same_value("a\r\nb", "a\nb")
    assert not same_value("C:\\r\nb", "C:\\nb"), "The backslash belongs to the text."


@pytest.mark.parametrize(
    ("text", "limit"),
    [("20,000", 20_000), ("1,234,567.5", 1_234_567.5), ("20 000", 20_000), ("0.5", 0.5), ("1_000", 1000)],
)
def test_a_limit_may_have_thousands_separators(text: str, limit: float) -> None:
    assert parse_limit("cost", text) == limit


@pytest.mark.parametrize("text", ["0,5", "0,50", "1,5", "1,00,0", "0,500", "1,000,5", ",5", "1000,000"])
def test_a_decimal_comma_raises_no_limit(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse_limit("cost", text)
