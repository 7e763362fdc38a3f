"""``make fuzz`` answers the model calls of many more runs from a record."""

from quality.fuzz.attempts import tried
from quality.fuzz.model_answers import try_run


def test_a_sample_of_random_runs_gets_each_recorded_answer_once() -> None:
    counts, wrong = tried(try_run, range(60))
    assert not wrong
    assert all(counts[kind] for kind in ("same messages", "in order", "stopped"))
