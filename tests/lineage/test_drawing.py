"""The lines and dots next to the list, and the graph."""

from pathlib import Path

import pytest

from viewer.lineage.drawing import (
    LANE,
    MARGIN,
    MAX_OVERVIEW_NODES,
    ROW,
    Chain,
    GraphNode,
    NoLayout,
    collapse,
    draw_dots,
    draw_overview,
    draw_window,
)
from viewer.lineage.tree import Edge


def node(
    row: int, parent: int | None = None, *, lane: int = 0, parent_lane: int = 0, edge: Edge | None = None
) -> GraphNode:
    link = edge or (Edge.ROOT if parent is None else Edge.RECORDED)
    return GraphNode(str(row), row, lane, lane, "done", link, parent, None if parent is None else parent_lane)


def test_the_newest_row_is_on_top() -> None:
    drawing = draw_window([node(1, 0), node(0)], [], 1)
    assert [(dot.key, dot.y) for dot in drawing.dots] == [("1", ROW / 2), ("0", ROW * 1.5)]
    assert [line.path for line in drawing.lines] == [f"M{MARGIN} 15V45"]


def test_a_fork_bends_into_its_parent() -> None:
    drawing = draw_window([node(2, 0, lane=1), node(1, 0), node(0)], [], 2)
    assert drawing.lines[0].path == "M40 15V66Q40 75 31 75H22"


def test_a_line_to_an_older_row_ends_at_the_window() -> None:
    drawing = draw_window([node(9, 2), node(8, 7)], [], 1)
    assert [line.path for line in drawing.lines] == ["M22 15V60", "M22 45V60"]


def test_a_line_from_above_runs_through_the_window() -> None:
    drawing = draw_window([node(5, 4), node(4, 3)], [node(9, 1, lane=1)], 2)
    assert drawing.lines[0].path == f"M{MARGIN + LANE} 0V60"
    assert [dot.key for dot in drawing.dots] == ["5", "4"]


def test_a_gap_without_an_ancestor_is_a_stub() -> None:
    drawing = draw_window([node(0, edge=Edge.MISSING)], [], 1)
    assert [(line.path, line.edge) for line in drawing.lines] == [("M22 15V37", Edge.MISSING)]


def test_many_lanes_move_together() -> None:
    few, many = draw_window([node(0)], [], 10), draw_window([node(0, lane=99)], [], 100)
    assert many.width == few.width
    assert many.dots[0].x == MARGIN + 9 * LANE


def test_filtered_rows_have_dots_and_no_lines() -> None:
    drawing = draw_dots([node(90, 89), node(7, 6)], 1)
    assert [dot.y for dot in drawing.dots] == [15, 45]
    assert drawing.lines == ()


def test_an_empty_window_is_an_empty_drawing() -> None:
    assert draw_window([], [], 0).dots == ()


def test_a_chain_without_forks_is_one_node() -> None:
    chains = collapse(
        [node(0), node(1, 0), node(2, 1), node(3, 1, lane=1), node(4, 3, lane=1, parent_lane=1)]
    )
    assert [(chain.keys, chain.parent) for chain in chains] == [
        (("0", "1"), None), (("2",), 0), (("3", "4"), 0),
    ]  # fmt: skip


def test_a_gap_splits_a_chain() -> None:
    chains = collapse([node(0), node(1, 0, edge=Edge.MISSING)])
    assert [(chain.keys, chain.edge) for chain in chains] == [(("0",), Edge.ROOT), (("1",), Edge.MISSING)]


def test_the_graph_runs_from_left_to_right() -> None:
    drawing = draw_overview(collapse([node(0), node(1, 0, lane=1), node(2, 0)]))
    at = {dot.key: dot.x for dot in drawing.dots}
    assert at["0"] < at["1"] == at["2"]
    assert len(drawing.lines) == 2 and all(line.path.startswith("M") for line in drawing.lines)
    assert drawing.width > 0 and drawing.height > 0


def test_without_dot_there_is_no_graph(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoLayout, match="not installed"):
        draw_overview(collapse([node(0)]))


def test_a_dot_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "dot"
    slow.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    slow.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoLayout, match="too long"):
        draw_overview(collapse([node(0)]), seconds=0.2)


def test_a_failing_dot_process_does_not_fail_the_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "dot"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoLayout, match="failed"):
        draw_overview(collapse([node(0)]))


def test_too_many_forks_are_not_laid_out() -> None:
    chains = [Chain((str(n),), 0, "done", Edge.ROOT, False, None) for n in range(MAX_OVERVIEW_NODES + 1)]
    with pytest.raises(NoLayout, match="too many"):
        draw_overview(chains)


def test_dot_receives_no_text_of_a_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spy = tmp_path / "dot"
    spy.write_text(f"#!/bin/sh\n/bin/cat > {tmp_path}/asked\necho 'graph 1 1 1'\n")
    spy.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    draw_overview([Chain(('<b>"evil" URL=x',), 0, "done", Edge.ROOT, False, None)])
    assert "evil" not in (tmp_path / "asked").read_text()
