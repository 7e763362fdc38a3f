"""A sample of the attacks of ``make fuzz`` from within sandboxes."""

from pathlib import Path

import pytest

from quality.fuzz.sandbox_escapes import tried


@pytest.mark.django_db
def test_nothing_outside_a_sandbox_is_reached(tmp_path: Path, settings: object) -> None:
    settings.JOB_RUNNERS = {}  # type: ignore[attr-defined]
    counts, faults = tried(tmp_path, [0, 1])
    assert faults == [] and counts["attacks"] > 100
