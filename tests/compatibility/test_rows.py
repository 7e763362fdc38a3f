"""Every row of the compatibility matrix passes on the demo's version of the engine.

``make matrix`` starts each run cold. These tests fork one process that has imported the engine.
"""

import pytest

from quality.compatibility.execution import outcomes_of, rows_named
from tests.engine_runs.prewarmed import WarmPython

pytestmark = pytest.mark.engine
Outcomes = dict[str, str]
NOT_POSSIBLE = {"task order: conditional tasks ahead, without the project's code"}
ROWS = [row.title for row in rows_named()]


@pytest.fixture(scope="module")
def outcomes(
    warm_engine: WarmPython, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Outcomes:
    """Return the outcome of each selected row. Two rows run at a time."""
    asked = {item.callspec.params.get("title") for item in request.session.items if hasattr(item, "callspec")}
    rows = [row for row in rows_named() if row.title in asked]
    recordings = tmp_path_factory.mktemp("recordings")
    played = outcomes_of([(row, "newest", warm_engine, recordings) for row in rows])
    return {row.title: outcome for row, outcome in zip(rows, played, strict=True)}


@pytest.mark.parametrize("title", ROWS)
def test_row_passes(outcomes: Outcomes, title: str) -> None:
    verdict = outcomes[title].partition(":")[0]
    assert verdict == ("not possible" if title in NOT_POSSIBLE else "pass"), outcomes[title]
