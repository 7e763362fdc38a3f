"""Values as texts of fields: only a person changes their types."""

import json
import math
from typing import Any

import pytest

from viewer.launching.values import (
    MAX_CHARACTERS,
    InvalidValue,
    Kind,
    has_redacted_part,
    kind_of,
    parse_value,
    same_value,
    text_of,
)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("AI", Kind.TEXT),
        ("3", Kind.TEXT),
        ("", Kind.TEXT),
        ("two\nlines ", Kind.TEXT),
        (3, Kind.WHOLE_NUMBER),
        (-(2**70), Kind.WHOLE_NUMBER),
        (0, Kind.WHOLE_NUMBER),
        (0.1, Kind.NUMBER),
        (3.0, Kind.NUMBER),
        (1e300, Kind.NUMBER),
        (True, Kind.YES_NO),
        (False, Kind.YES_NO),
        (["arXiv", "Hacker News"], Kind.LIST),
        (["3", "true"], Kind.LIST),
        ([1, 2], Kind.JSON),
        ([], Kind.JSON),
        (["a\nb"], Kind.JSON),
        ([" a"], Kind.JSON),
        (["a\u2028b"], Kind.JSON),
        ({"a": [1, None]}, Kind.JSON),
        (None, Kind.JSON),
        ("a\0b", Kind.JSON),
        ({"ü": "☃ <b>"}, Kind.JSON),
    ],
)
def test_a_value_survives_the_form(value: Any, kind: Kind) -> None:
    assert kind_of(value) is kind
    back = parse_value(text_of(value, kind), kind)
    assert type(back) is type(value)
    assert same_value(back, value)


def test_line_endings_stay_as_they_were_stored() -> None:
    assert parse_value("a\r\nb", Kind.TEXT) == "a\nb"
    assert parse_value("a\r\n\r\n b \r\n", Kind.LIST) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("3.5", Kind.WHOLE_NUMBER),
        ("", Kind.WHOLE_NUMBER),
        ("three", Kind.WHOLE_NUMBER),
        ("1_000", Kind.WHOLE_NUMBER),
        ("٣", Kind.WHOLE_NUMBER),
        ("9" * 400, Kind.WHOLE_NUMBER),
        ("nan", Kind.NUMBER),
        ("inf", Kind.NUMBER),
        ("1e999", Kind.NUMBER),
        ("", Kind.NUMBER),
        ("yes", Kind.YES_NO),
        ("", Kind.YES_NO),
        ("{", Kind.JSON),
        ("", Kind.JSON),
        ("NaN", Kind.JSON),
        ("[Infinity]", Kind.JSON),
        ("1e999", Kind.JSON),
        ("[" * 60 + "]" * 60, Kind.JSON),
        ("[" * 100_000, Kind.JSON),
        ("9" * 5_000, Kind.JSON),
        ("x" * (MAX_CHARACTERS + 1), Kind.TEXT),
    ],
)
def test_an_invalid_value_is_refused_with_a_message(text: str, kind: Kind) -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_value(text, kind)
    assert str(refused.value).endswith(".")


def test_invalid_json_names_the_position() -> None:
    with pytest.raises(InvalidValue, match="line 2, column 6"):
        parse_value('{\n "a" 3}', Kind.JSON)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("key: [redacted]", Kind.TEXT),
        ("[redacted]", Kind.TEXT),
        ("a\n[redacted]", Kind.LIST),
        ('{"a": "[redacted]"}', Kind.JSON),
        ('{"a": "\\u005bredacted]"}', Kind.JSON),
        ('{"[redacted]": 1}', Kind.JSON),
    ],
)
def test_the_mark_of_a_secret_is_refused_as_a_value(text: str, kind: Kind) -> None:
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
            value = parse_value(text, Kind.JSON)
        except InvalidValue:
            continue
        assert json.loads(json.dumps(value, allow_nan=False)) == value
        assert not (isinstance(value, float) and math.isinf(value))
