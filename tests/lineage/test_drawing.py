"""The lines and dots next to the list."""

from viewer.records.lineage.lanes import LANE, MARGIN, ROW, GraphNode, draw_dots, draw_window
from viewer.records.lineage.tree import ParentLink


def node(
    row: int,
    parent: int | None = None,
    *,
    lane: int = 0,
    parent_lane: int = 0,
    parent_link: ParentLink | None = None,
) -> GraphNode:
    link = parent_link or (ParentLink.ROOT if parent is None else ParentLink.RECORDED)
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
    drawing = draw_window([node(0, parent_link=ParentLink.MISSING)], [], 1)
    assert [(line.path, line.stroke) for line in drawing.lines] == [("M22 15V37", ParentLink.MISSING)]


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
