"""A query is words and phrases. Nothing in it is an operator of the database."""

import pytest

from tests.search.indexed import found
from viewer.models import SearchEntry
from viewer.records.search import expression, parts
from viewer.records.search_filters import MAX_WORDS, Words, words_in


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("green tea", Words(("green",), (), "tea")),
        ('"green tea"', Words(("green tea",))),
        ('"green tea', Words(("green tea",))),
        ("tea -green", Words(("tea",), ("green",))),
        ('tea -"green leaf"', Words(("tea",), ("green leaf",))),
        ("* ( ) ^ :", Words()),
        ('_ = green __ "_" tea -_', Words(("green", "tea"))),
        ("-tea", Words((), ("tea",))),
        ("", Words()),
        ("green te", Words(("green", "te"))),
    ],
)
def test_a_query_is_words_and_phrases(query: str, words: Words) -> None:
    assert words_in(query) == words


def test_excluded_words_alone_find_nothing() -> None:
    assert not words_in("-tea") and not words_in("") and words_in("t")


def test_a_huge_query_is_cut() -> None:
    assert len(words_in("word " * 1_000_000).all_of) <= MAX_WORDS


@pytest.mark.parametrize(
    "query",
    [
        *('a" OR text:b', "NEAR(a b, 2)", "text : a", "{text} : a", "^a", "a*", "a AND", "NOT", "a + b", "-"),
        *(
            '"',
            '""""',
            "'; DROP TABLE viewer_run; --",
            "a\0b",
            "\x02\x03",
            "%s %(a)s",
            "a" * 100_000,
            "é" * 300,
        ),
        "\ud800",
    ],
)
def test_no_query_is_an_error(db: None, query: str) -> None:
    assert found(query) == [] and SearchEntry.objects.count() == 0


def test_every_word_is_quoted() -> None:
    words = words_in('a" OR b -"c NOT d" NEAR')
    assert expression(words).replace('""', "").count('"') == 2 * (
        len(words.all_of) + len(words.none_of) + bool(words.prefix)
    )


def test_an_excerpt_has_parts() -> None:
    assert parts("a \x02tea\x03 b \x02tea\x03") == (
        ("a ", False),
        ("tea", True),
        (" b ", False),
        ("tea", True),
    )
