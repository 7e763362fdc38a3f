"""Which score is the best."""

from viewer.presentation.comparison_sides import Score, best_of, by_score


def test_the_best_are_the_highest_numbers_or_true() -> None:
    assert best_of([1, 3.5, 2]) == [1]
    assert best_of([307, 169, None, 307]) == [0, 3]
    assert best_of([False, True]) == [1]
    without: list[list[Score | None]] = [[1, "a"], ["yes", "no"], [1, None], [2, 2.0], []]
    assert [best_of(scores) for scores in without] == [[]] * 5


def test_numbers_sort_before_texts_and_unknown_scores_last() -> None:
    scores: list[Score | None] = [None, 2, "b", 10, "a", True]
    assert by_score(scores, highest_first=True) == [3, 1, 5, 2, 4, 0]
    assert by_score(scores, highest_first=False) == [5, 1, 3, 4, 2, 0]
