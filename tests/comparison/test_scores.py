"""Which score is the best."""

from viewer.comparison.scores import best_of


def test_the_best_is_the_one_highest_number() -> None:
    assert best_of(["1", "3.5", "2"]) == 1
    assert best_of(["307", "169", "307"]) is None
    assert best_of(["1", "", "2"]) is None and best_of(["yes", "no"]) is None and best_of(["1"]) is None
