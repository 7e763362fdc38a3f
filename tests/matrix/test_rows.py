"""Rows of the matrix that no other test shows, with the demo's version of the engine."""

from pathlib import Path

import pytest

from matrix.playing import outcomes_of, rows_named

pytestmark = pytest.mark.engine
SHOWN = (
    "crew: resume after an interrupt",
    "crew: resume after a failed task",
    "outputs: edited JSON output",
    "parts: a tool made by @tool",
    "parts: guardrail, task and step callbacks",
    "flow: and_, or_: finished methods hand on their results",
    "stores: JSON location of 1.14.0 and 1.14.1",
    "stores: SQLite store of 1.14.0 and 1.14.1",
    "weather: the model does not answer in time",
    "weather: a tool that kills the process",
)


@pytest.fixture(scope="module")
def outcomes(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What came of each row, played two at a time."""
    recordings = tmp_path_factory.mktemp("recordings")
    rows = rows_named(SHOWN)
    played = outcomes_of([(row, "newest", engine_python, recordings) for row in rows])
    return {row.title: outcome for row, outcome in zip(rows, played, strict=True)}


@pytest.mark.parametrize("title", SHOWN)
def test_what_must_be_seen_is_seen(outcomes: dict[str, str], title: str) -> None:
    assert outcomes[title] == "pass"
