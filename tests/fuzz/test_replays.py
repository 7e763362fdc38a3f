"""``make fuzz`` replays many more hostile calls."""

from quality.fuzz.replays import tried


def test_a_sample_of_hostile_calls_is_replayed_without_an_effect() -> None:
    counts, wrong = tried(0, 20)
    assert not wrong
    assert all(counts[kind] for kind in ("answered", "failed", "cut", "with tools"))
