"""Every row on crews, outputs and components passes on the demo's version of the engine.

``make matrix-crewai`` starts each run cold. These tests fork one process that has imported the engine.
"""

import pytest

from tests.compatibility.rows import CREWS, assert_passes, titles


@pytest.mark.parametrize("title", titles(CREWS))
def test_row_passes(outcomes: dict[str, str], title: str) -> None:
    assert_passes(title, outcomes)
