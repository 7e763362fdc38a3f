"""``make fuzz`` decides about the tool calls of many more runs."""

from quality.fuzz.attempts import tried
from quality.fuzz.tool_calls import try_run


def test_a_sample_of_random_runs_calls_no_tool_that_it_must_not() -> None:
    counts, wrong = tried(try_run, range(250))
    assert not wrong
    assert all(counts[kind] for kind in ("called", "from the record", "refused", "asked"))
