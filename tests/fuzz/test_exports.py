"""A sample of the hostile runs of ``make fuzz`` is exported."""

from pathlib import Path

import pytest

from quality.fuzz.exports import tried


@pytest.mark.django_db
def test_no_text_of_a_run_is_code_in_its_export(tmp_path: Path) -> None:
    counts, faults = tried(tmp_path, range(4))
    assert faults == [] and counts["as tests"] > 2 and counts["as spans"] > 2 and counts["collected"] > 2
