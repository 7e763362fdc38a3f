"""A sample of the files of ``make fuzz`` that isolated runs leave in their projects."""

from pathlib import Path

import pytest

from quality.fuzz.planted_files import tried


@pytest.mark.django_db
def test_nothing_that_runs_leave_leads_forkline_elsewhere(tmp_path: Path) -> None:
    counts, faults = tried(tmp_path, range(2))
    assert faults == [] and counts["reads"] > 100
