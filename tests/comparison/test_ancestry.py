"""The line of ancestors of a checkpoint, and how long it took."""

from datetime import UTC, datetime, timedelta

from viewer.models import Checkpoint
from viewer.presentation.comparison_sides import duration_of

START = datetime(2026, 11, 20, tzinfo=UTC)


def line(*rows: tuple[str, int]) -> list[Checkpoint]:
    return [Checkpoint(branch=branch, created_at=START + timedelta(seconds=at)) for branch, at in rows]


def test_the_time_until_a_fork_or_resume_does_not_count() -> None:
    began = START.timestamp()
    resumed = line(("main", 0), ("main", 5), ("main", 65), ("main", 70))
    assert duration_of(resumed).total_seconds() == 70
    worked = [(began - 1, began + 5.5), (began + 60.5, began + 70)]
    assert duration_of(resumed, worked).total_seconds() == 15
    attempts = line(("main", 0), ("main", 5), ("main, attempt 2", 65), ("main, attempt 2", 70))
    assert duration_of(attempts, worked).total_seconds() == 10
