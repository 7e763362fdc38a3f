"""Short titles of what has only a description."""

import pytest

from viewer.engines.contents import MAX_TITLE, short_title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Research bees", "Research bees"),
        ("  Research\n bees ", "Research bees"),
        ("", ""),
        (
            "Research the latest about bees. Then write down everything that a newcomer needs to know.",
            "Research the latest about bees",
        ),
        (
            "What is new about bees? Look at every source that you can find and sum up what it says of them.",
            "What is new about bees?",
        ),
        (
            "Compare v1.2 with v1.3 in the docs\nand list what has changed between these two in a table",
            "Compare v1.2 with v1.3 in the docs and list what has changed between these two…",
        ),
    ],
)
def test_a_title_is_the_first_sentence_of_a_long_text(text: str, title: str) -> None:
    assert short_title(text) == title


@pytest.mark.parametrize("text", ["word " * 100, "x" * 1000, "研究" * 200, ". " * 200])
def test_a_title_is_never_longer_than_its_bound(text: str) -> None:
    assert 0 < len(short_title(text)) <= MAX_TITLE
