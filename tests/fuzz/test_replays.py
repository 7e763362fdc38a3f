"""``make fuzz`` replays many more hostile calls."""

from quality.fuzz.attempts import tried
from quality.fuzz.replays import try_call


def test_a_sample_of_hostile_calls_is_replayed_without_an_effect() -> None:
    counts, wrong = tried(try_call, range(20))
    assert not wrong
    assert all(counts[kind] for kind in ("answered", "failed", "cut", "with tools"))
