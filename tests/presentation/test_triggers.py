"""Triggers, numbers and times as the pages write them."""

from datetime import UTC, datetime, timedelta

import pytest

from viewer.formats import short_number, short_size
from viewer.models import Checkpoint
from viewer.presentation.run.branches import bars_of, shape_of, title_of, trigger_label
from viewer.templatetags import forkline
from viewer.templatetags.forkline import since


@pytest.mark.parametrize(
    ("trigger", "shape", "text"),
    [
        ("task_started", "start", "task started"),
        ("task_completed", "done", "task completed"),
        ("crew_kickoff_completed", "end", "crew completed"),
        ("task_failed", "failure", "task failed"),
        ("tool_usage_error", "failure", "tool failed"),
        ("something_new_finished", "done", "something new finished"),
        ("", "done", "written on request"),
    ],
)
def test_a_trigger_has_a_shape_and_a_label(trigger: str, shape: str, text: str) -> None:
    assert (shape_of(trigger), trigger_label(trigger)) == (shape, text)


@pytest.mark.parametrize(
    ("trigger", "done", "title"),
    [
        ("task_completed", 2, "task 2 of 4 completed"),
        ("task_started", 2, "task 3 of 4 started"),
        ("task_failed", 3, "task 4 of 4 failed"),
        ("crew_kickoff_completed", 4, "crew completed"),
    ],
)
def test_a_checkpoint_of_a_crew_names_its_task(trigger: str, done: int, title: str) -> None:
    checkpoint = Checkpoint(trigger=trigger, units_done=done, units_total=4, entity="crew")
    assert title_of(checkpoint) == title


def test_each_task_has_a_bar() -> None:
    assert bars_of(1, 3, running=False) == ("is-done", "", "")
    assert bars_of(1, 3, running=True) == ("is-done", "is-running", "")
    assert bars_of(3, 3, running=True) == ("is-done",) * 3
    assert bars_of(5, 3, running=False) == ("is-done",) * 3
    assert bars_of(0, 0, running=True) == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, ""),
        (950, "950"),
        (1234, "1.2k"),
        (15_100, "15.1k"),
        (250_000, "250k"),
        (999_960, "1.0M"),
        (3_400_000, "3.4M"),
    ],
)
def test_numbers_are_abbreviated(value: int, text: str) -> None:
    assert short_number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(812, "812 B"), (49_152, "48 KB"), (1_258_291, "1.2 MB"), (3 * 1024**3, "3.0 GB")]
)
def test_sizes_are_abbreviated(value: int, text: str) -> None:
    assert short_size(value) == text


@pytest.mark.parametrize(
    ("branch", "text"),
    [
        ("main", "main"),
        ("fork/20261120T093843_5e8a2c", "fork/…5e8a2c"),
        ("fork/tone-3-of-voice", "fork/tone-3-of-voice"),
        ("fork/20261120T232827_877b0992_5e8a2c", "fork/…5e8a2c"),
        ("a-long-name-without-end", "a-long-nam…thout-end"),
    ],
)
def test_long_branch_names_are_truncated_in_the_middle(branch: str, text: str) -> None:
    assert forkline.short_branch(branch) == text


def test_long_times_since_the_start_are_less_precise() -> None:
    start = datetime(2026, 11, 20, tzinfo=UTC)
    shown = [str(since(start + timedelta(seconds=s), start)) for s in (0.124, 61, 3723)]
    texts = ("+124 ms", "+1 min 1 s", "+1 h 2 min")
    assert all(f">{text}</time>" in element for text, element in zip(texts, shown, strict=True)), shown
    assert since(None, start) == ""


def test_a_text_is_truncated_at_a_word() -> None:
    assert forkline.beginning("one two three", 9) == "one two …"
    assert forkline.beginning("one", 9) == "one"
