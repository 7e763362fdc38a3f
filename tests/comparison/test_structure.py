"""Differences between JSON values."""

import time
from typing import Any

import pytest

from viewer.presentation.diff import Piece, difference, folded, json_difference, json_text, merged, same_json


def marked(before: Any, after: Any) -> tuple[list[str], list[str]]:
    """The marked texts of both sides, without spaces around them."""
    old, new = json_difference(before, after)
    return [one.text.strip() for one in old if one.changed], [one.text.strip() for one in new if one.changed]


def test_only_the_values_that_differ_are_marked() -> None:
    assert marked({"a": 1, "b": {"c": True}}, {"b": {"c": 1}, "a": 1}) == (["true"], ["1"])
    assert marked({"a": 1, "b": 2}, {"a": 1}) == (['"b": 2'], [])
    assert marked([1, 2, 3, 4], [1, 3, 4, 5]) == (["2,"], ["5"])


def test_the_words_of_long_texts_are_marked() -> None:
    text = "The research took three weeks and found seven frameworks."
    assert marked({"t": text}, {"t": text.replace("seven", "nine")}) == (["seven"], ["nine"])


def test_numbers_and_booleans_differ() -> None:
    assert same_json({"a": [1, None]}, {"a": [1, None]})
    assert not same_json(True, 1) and not same_json(1.0, 1) and not same_json({"a": 1}, {"b": 1})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": []}, {"a": {}}),
        ([[1], [2]], [[2], [1]]),
        ([{"id": n} for n in range(9_000)], [{"id": n} for n in range(9_000, 0, -1)]),
        ({str(n): "word " * 9 for n in range(20_000)}, {str(n): "words " * 9 for n in range(20_000)}),
        ([0] * 300_000, [1] * 300_000),
    ],
)
def test_the_first_side_is_the_json_of_its_checkpoint(before: Any, after: Any) -> None:
    began = time.monotonic()
    old, new = json_difference(before, after)
    assert time.monotonic() - began < 15
    assert "".join(piece.text for piece in old) == json_text(before)
    assert any(piece.changed for piece in old + new)


def test_long_equal_stretches_are_folded_and_complete() -> None:
    text = " ".join(f"word{number}" for number in range(200))
    old, new = difference(f"one {text} two", f"first {text} last")
    for pieces, whole in ((old, f"one {text} two"), (new, f"first {text} last")):
        stretches = folded(pieces, "words")
        assert [stretch.folded for stretch in stretches] == [0, 164, 0]
        assert "".join(piece.text for stretch in stretches for piece in stretch.pieces) == whole
    (whole_text,) = folded([Piece(text, False)], "words")
    assert not whole_text.folded


def test_a_text_compared_with_several_is_marked_where_any_differs() -> None:
    text = "The tea was hot and the cup was red"
    others = [difference(text, text.replace(*change))[0] for change in (("hot", "cold"), ("red", "blue"))]
    assert [piece.text for piece in merged(others) if piece.changed] == ["hot", "red"]
    assert "".join(piece.text for piece in merged(others)) == text
