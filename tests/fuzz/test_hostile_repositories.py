"""A sample of the hostile repositories of ``make fuzz`` is read, compared and checked out."""

from pathlib import Path

import pytest

from quality.fuzz.hostile_repositories import tried


@pytest.mark.django_db
def test_nothing_of_a_repository_runs_or_changes(tmp_path: Path) -> None:
    counts, faults = tried(tmp_path, range(5))
    assert faults == [] and counts["with a commit"] and counts["compared"]
