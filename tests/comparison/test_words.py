"""The marked difference between a stored text and its edit."""

import time

import pytest

from viewer.presentation.diff import Piece, difference


def test_only_the_changed_words_are_marked() -> None:
    before, after = difference("Forking used to mean hoping.", "Forking used to mean drawing branches.")
    assert before == [
        Piece("Forking used to mean ", False),
        Piece("hoping", True),
        Piece(".", False),
    ]
    assert [piece.text for piece in after if piece.changed] == ["drawing branches"]


def test_equal_texts_have_no_marks() -> None:
    assert difference("a b\n", "a b\n") == ([Piece("a b\n", False)], [Piece("a b\n", False)])
    assert difference("", "") == ([], [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "new"),
        ("old", ""),
        ("one\n\ntwo  three", "one\ntwo three\n"),
        ("<b>&amp;</b>", "<i>&</i>"),
        ("a " * 5_000, "b " * 5_000),
        ("line\n" * 9_000, "line\n" * 9_001),
        ("x" * 100_000, "y" * 100_000),
    ],
)
def test_the_joined_pieces_of_each_side_are_its_text(before: str, after: str) -> None:
    old, new = difference(before, after)
    assert "".join(piece.text for piece in old) == before
    assert "".join(piece.text for piece in new) == after
    assert any(piece.changed for piece in old + new)


def test_long_texts_are_compared_quickly() -> None:
    text = [f"word{number % 700}" for number in range(120_000)]
    began = time.perf_counter()
    difference(" ".join(text), " ".join(reversed(text)))
    assert time.perf_counter() - began < 10
