"""Durations as texts."""

import pytest

from viewer.formats import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.00096, "< 1 ms"),
        (0.0042, "4 ms"),
        (0.0099, "10 ms"),
        (0.01, "10 ms"),
        (0.423, "423 ms"),
        (0.9996, "1 s"),
        (1.8, "1.8 s"),
        (5.0, "5 s"),
        (13.2, "13 s"),
        (125, "2 min 5 s"),
        (187_200, "2 d 4 h"),
    ],
)
def test_a_duration_has_the_unit_in_which_it_can_be_read(seconds: float, text: str) -> None:
    assert duration(seconds) == text
