"""The table as Markdown, and the selection of rows."""

from quality.compatibility.execution import rows_named
from quality.compatibility.table import table

ROWS = [("crew", "resume"), ("crew", "fork"), ("flow", "resume")]


def test_each_reason_is_listed_once_and_numbered_in_the_cells() -> None:
    results = {
        ("crew", "resume", "1"): "pass",
        ("crew", "resume", "2"): "fail: a | b",
        ("crew", "fork", "1"): "not possible: no\nway",
        ("crew", "fork", "2"): "fail: a | b",
        ("flow", "resume", "1"): "pass",
    }
    assert table(ROWS, ["1", "2"], results).splitlines() == [
        "| | | 1 | 2 |",
        "|---|---|---|---|",
        "| crew | resume | pass | fail (1) |",
        "|  | fork | not possible (2) | fail (1) |",
        "| flow | resume | pass | not run |",
        "",
        "1. a \\| b",
        "2. no way",
    ]


def test_rows_are_selected_by_parts_of_their_names() -> None:
    every = rows_named()
    assert len({row.title for row in every}) == len(every) > 40
    assert {row.group for row in rows_named(["flow:", "agent: resume"])} == {"flow", "agent"}
    assert rows_named(["no such row"]) == []
