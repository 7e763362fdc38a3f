"""Which rows of a run are visible when parts of it are collapsed."""

import time

import pytest

from tests.lineage.forests import chain, node, random_nodes
from viewer.records.lineage.lanes import Collapse, Outline, OutlineRow, lay_out, outline_of
from viewer.records.lineage.tree import Node, build_forest

# c0 to c5 on main; f and g on a fork of c2.
FORKED = [*chain(6), node("f", "c2", branch="fork", second=7), node("g", "f", branch="fork", second=8)]


def rows_of(nodes: list[Node]) -> tuple[list[OutlineRow], dict[str, int]]:
    """Return the rows of a lineage, newest first, and the key of each node."""
    lineage = build_forest(nodes)[0]
    keys = {one.key: number for number, one in enumerate(lineage.nodes, 1)}
    positions = lay_out(lineage.nodes)
    rows = [
        OutlineRow(
            keys[one.key],
            positions[one.key].row,
            positions[one.key].lane,
            keys.get(one.parent or ""),
            one.branch,
            "task_started" if int(keys[one.key]) % 2 == 0 else "task_completed",
            one.parent_link,
        )
        for one in lineage.nodes
    ]
    return rows[::-1], keys


def shown(nodes: list[Node], collapse: Collapse) -> dict[str, tuple[str | None, int]]:
    """Return the visible nodes, each with the visible node it continues and its number of hidden rows."""
    rows, keys = rows_of(nodes)
    names = {key: name for name, key in keys.items()}
    return {
        names[line.newest.key]: (names[line.parent.key] if line.parent else None, line.hidden)
        for line in outline_of(rows, collapse).lines
    }


def test_nothing_is_hidden_by_default() -> None:
    assert shown(FORKED, Collapse()) == {
        "g": ("f", 0),
        "f": ("c2", 0),
        "c5": ("c4", 0),
        "c4": ("c3", 0),
        "c3": ("c2", 0),
        "c2": ("c1", 0),
        "c1": ("c0", 0),
        "c0": (None, 0),
    }


def test_every_stretch_is_collapsed_into_its_newest_row() -> None:
    assert shown(FORKED, Collapse(everything=True)) == {"g": ("c2", 1), "c5": ("c2", 2), "c2": (None, 2)}


def test_a_branch_is_collapsed_between_its_forks() -> None:
    assert shown(FORKED, Collapse(branches=["main"])) == {
        "g": ("f", 0),
        "f": ("c2", 0),
        "c5": ("c2", 2),
        "c2": (None, 2),
    }


def test_a_stretch_is_named_by_any_of_its_rows() -> None:
    _, keys = rows_of(FORKED)
    for name in ("c3", "c4", "c5"):
        lines = shown(FORKED, Collapse(stretches=[keys[name]]))
        assert lines["c5"] == ("c2", 2) and "c4" not in lines and lines["c2"] == ("c1", 0)


def test_an_expanded_stretch_stays_visible() -> None:
    _, keys = rows_of(FORKED)
    lines = shown(FORKED, Collapse(everything=True, expanded=[keys["c4"]]))
    assert [*lines] == ["g", "c5", "c4", "c3", "c2"]


def test_a_kept_row_divides_its_stretch() -> None:
    _, keys = rows_of(FORKED)
    lines = shown(FORKED, Collapse(everything=True, kept=[keys["c1"]]))
    assert lines == {"g": ("c2", 1), "c5": ("c2", 2), "c2": ("c1", 0), "c1": (None, 1)}


def test_rows_of_a_trigger_are_left_out_without_being_counted() -> None:
    # c1 and c3 are started rows, and so are f and c5, which is a head.
    lines = shown(FORKED, Collapse(triggers=["task_started"]))
    assert "c1" not in lines and "c3" not in lines
    assert lines["c2"] == ("c0", 0) and lines["c4"] == ("c2", 0) and "c5" in lines


@pytest.mark.parametrize("seed", range(300))
def test_every_row_is_in_exactly_one_line_and_every_fork_is_visible(seed: int) -> None:
    rows, _ = rows_of(random_nodes(seed))
    outline = outline_of(rows, Collapse(everything=True))
    assert sum(1 + line.hidden for line in outline.lines) == len(rows)
    visible = {line.newest.key for line in outline.lines}
    children: dict[int, list[str]] = {}
    for row in rows:
        if row.parent is not None:
            children.setdefault(row.parent, []).append(row.branch)
    for row in rows:
        if children.get(row.key, []) != [row.branch]:
            assert row.key in visible
    assert all(line.parent is None or line.parent.row < line.newest.row for line in outline.lines)


def test_twenty_thousand_rows_are_collapsed_at_once() -> None:
    rows = [
        OutlineRow(key, key, 0, key - 1 if key > 1 else None, "main", "task_completed", "recorded")
        for key in range(20_000, 0, -1)
    ]
    start = time.process_time()
    outline: Outline = outline_of(rows, Collapse(everything=True))
    assert [line.hidden for line in outline.lines] == [19_999]
    assert time.process_time() - start < 1
