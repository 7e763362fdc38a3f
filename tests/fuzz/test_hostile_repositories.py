"""A sample of the hostile repositories of ``make fuzz`` is read, compared and checked out."""

from pathlib import Path

import pytest

from quality.fuzz.hostile_repositories import tried


@pytest.mark.django_db
def test_nothing_of_a_repository_runs_or_changes(tmp_path: Path) -> None:
    # 83 has a folder in place of a committed file, and 94 a link to a name with a NUL character.
    counts, faults = tried(tmp_path, [0, 1, 2, 83, 94])
    assert faults == [] and counts["with a commit"] and counts["compared"]
