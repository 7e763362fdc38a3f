"""A value as the text of a field and back: nothing changes its type but a person."""

import json
import math
from typing import Any

import pytest

from viewer.forms.values import (
    MOST_CHARACTERS,
    Kind,
    ValueRefused,
    holds_secret,
    kind_of,
    same,
    text_of,
    value_of,
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
def test_a_value_comes_back_as_it_was(value: Any, kind: Kind) -> None:
    assert kind_of(value) is kind
    back = value_of(text_of(value, kind), kind)
    assert type(back) is type(value)
    assert same(back, value)


def test_lines_end_as_they_were_stored_though_browsers_send_two_characters() -> None:
    assert value_of("a\r\nb", Kind.TEXT) == "a\nb"
    assert value_of("a\r\n\r\n b \r\n", Kind.LIST) == ["a", "b"]


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
        ("x" * (MOST_CHARACTERS + 1), Kind.TEXT),
    ],
)
def test_what_is_no_value_of_its_kind_is_refused_in_words(text: str, kind: Kind) -> None:
    with pytest.raises(ValueRefused) as refused:
        value_of(text, kind)
    assert str(refused.value).endswith(".")


def test_a_wrong_json_names_the_place() -> None:
    with pytest.raises(ValueRefused, match="line 2, column 6"):
        value_of('{\n "a" 3}', Kind.JSON)


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
    with pytest.raises(ValueRefused, match="redacted"):
        value_of(text, kind)


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (1, True), (0, False), ("1", 1), (None, ""), ([], {}), ([1, 2], [2, 1])]
)
def test_values_of_other_types_are_not_the_same(one: Any, other: Any) -> None:
    assert not same(one, other)


def test_the_order_of_keys_makes_no_other_value() -> None:
    assert same({"a": 1, "b": 2}, {"b": 2, "a": 1})


def test_a_secret_is_seen_however_deep_it_lies() -> None:
    assert holds_secret({"a": [{"b": "x [redacted] y"}]})
    assert not holds_secret({"a": ["redacted"]})


def test_every_json_value_that_passes_can_be_sent_on() -> None:
    for text in ('{"a": 1e308}', '["\\ud800"]', "1" * 200, '"' + "x" * 1000 + '"'):
        try:
            value = value_of(text, Kind.JSON)
        except ValueRefused:
            continue
        assert json.loads(json.dumps(value, allow_nan=False)) == value
        assert not (isinstance(value, float) and math.isinf(value))
