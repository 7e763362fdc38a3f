"""Outcomes of the rows that a file selects."""

import pytest

from quality.compatibility.execution import outcomes_of, rows_named
from tests.engine_runs.prewarmed import WarmPython


@pytest.fixture(scope="module")
def outcomes(
    warm_engine: WarmPython, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, str]:
    """Return the outcome of each selected row of the file. Two rows run at a time."""
    selected = {
        item.callspec.params["title"]
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    }
    rows = [row for row in rows_named() if row.title in selected]
    recordings = tmp_path_factory.mktemp("recordings")
    played = outcomes_of([(row, "newest", warm_engine, recordings) for row in rows])
    return {row.title: outcome for row, outcome in zip(rows, played, strict=True)}
