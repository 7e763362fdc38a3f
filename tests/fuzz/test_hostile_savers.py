"""``make fuzz`` reads many more savers that answer at random, and those of hostile projects."""

from quality.fuzz.hostile_savers import tried


def test_a_sample_of_random_answers_neither_ends_the_reader_nor_shows_a_secret() -> None:
    counts, wrong = tried(range(40))
    assert not wrong
    assert all(counts[kind] for kind in ("read", "not read", "refused"))
