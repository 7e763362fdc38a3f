"""``make matrix-crewai`` reads and writes docs/matrix.md. Installs no version."""

from pathlib import Path

import pytest

from quality.compatibility import __main__ as command
from quality.compatibility import document, environments
from quality.compatibility.document import DOCUMENT, HEADING, merged, read_table, recorded
from quality.compatibility.execution import rows_named
from quality.compatibility.graphs import table as graph_table
from quality.compatibility.graphs.environments import VERSIONS
from quality.compatibility.table import NOT_RUN, table

ROWS = [("crew", "resume"), ("crew", "fork \\| edit"), ("flow", "resume")]
RESULTS = {
    ("crew", "resume", "1.9"): "pass",
    ("crew", "resume", "1.10"): "pass: it gave up",
    ("crew", "fork \\| edit", "1.9"): "not possible: too old",
    ("crew", "fork \\| edit", "1.10"): "pass",
    ("flow", "resume", "1.9"): "fail: a | b",
}
TEXT = f"# Title\n\n1. A list.\n\n{HEADING}\n\n{table(ROWS, ['1.9', '1.10'], RESULTS)}\n"


def test_a_written_table_can_be_read() -> None:
    columns = read_table(TEXT)

    read = {
        (*key, version): outcome for version, column in columns.items() for key, outcome in column.items()
    }
    assert read == {**RESULTS, ("flow", "resume", "1.10"): NOT_RUN}
    assert list(columns) == ["1.9", "1.10"]


def test_the_table_of_graphs_can_be_read_and_written_again() -> None:
    text = graph_table.DOCUMENT.read_text()
    columns = graph_table.read_table(text)
    assert set(VERSIONS) <= set(columns)
    assert text.endswith(f"{graph_table.HEADING}\n\n{graph_table.table(columns)}")
    assert graph_table.shown("test_one_two[a-b]") == "one two (a-b)"


def test_a_document_without_a_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="no table"):
        read_table("# Title\n")


def test_results_of_other_cells_are_kept() -> None:
    results = {("crew", "resume", "1.9"): "fail: no", ("agent", "resume", "1.9.1"): "pass: slow"}
    rows = [*ROWS[:2], ("agent", "resume")]

    text = merged(TEXT, rows, ["1.9", "1.9.1"], results)

    assert text.startswith(f"# Title\n\n1. A list.\n\n{HEADING}\n\n| ")
    assert read_table(text) == {
        "1.9": {ROWS[0]: "fail: no", ROWS[1]: "not possible: too old", rows[2]: NOT_RUN},
        "1.9.1": {ROWS[0]: NOT_RUN, ROWS[1]: NOT_RUN, rows[2]: "pass: slow"},
        "1.10": {ROWS[0]: "pass: it gave up", ROWS[1]: "pass", rows[2]: NOT_RUN},
    }


def test_the_document_matches_what_would_be_written() -> None:
    text = DOCUMENT.read_text()
    rows = [(row.group, row.name) for row in rows_named()]

    assert merged(text, rows, [], {}) == text


@pytest.mark.parametrize(("outcome", "status"), [("pass", 0), ("fail: no", 1)])
def test_chosen_rows_of_a_version_are_merged_into_the_document(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    outcome: str,
    status: int,
) -> None:
    copy = tmp_path / "docs/matrix.md"
    copy.parent.mkdir()
    copy.write_text(DOCUMENT.read_text())
    before = recorded(copy)
    played = ("crew", "fork with edited inputs", "1.14.2")
    monkeypatch.setattr(document, "DOCUMENT", copy)
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(command, "results_of", lambda *_: {played: outcome})
    monkeypatch.setenv("VERSIONS", "1.14.2")
    monkeypatch.setenv("ROWS", "crew: fork with edited inputs")

    assert command.main([]) == status
    before["1.14.2"][played[:2]] = outcome
    assert recorded(copy) == before
    assert ("fail: no" in capsys.readouterr().out) is bool(status)
