"""``make fuzz`` prunes many more random threads."""

from quality.fuzz.pruned_threads import tried


def test_a_sample_of_random_threads_can_be_read_as_before_after_a_prune() -> None:
    counts, wrong = tried(0, 4)
    assert not wrong
    assert counts["stays"] and counts["deleted"]
