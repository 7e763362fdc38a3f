"""The lane and the row of each checkpoint."""

import time

import pytest

from tests.lineage.forests import chain, node, random_nodes
from viewer.records.lineage.lanes import MAX_LANES, Position, lay_out
from viewer.records.lineage.tree import Lineage, Node, build_forest


def laid_out(*nodes: Node) -> dict[str, Position]:
    (lineage,) = build_forest(nodes)
    return lay_out(lineage.nodes)


def lanes(*nodes: Node) -> dict[str, int]:
    return {key: position.lane for key, position in laid_out(*nodes).items()}


def test_rows_count_from_the_oldest() -> None:
    assert [laid_out(*chain(3))[f"c{i}"].row for i in range(3)] == [0, 1, 2]


def test_a_fork_gets_a_new_lane() -> None:
    nodes = [*chain(3), node("f", "c1", branch="fork", second=5), node("g", "f", branch="fork", second=6)]
    assert lanes(*nodes) == {"c0": 0, "c1": 0, "c2": 0, "f": 1, "g": 1}


def test_simultaneous_forks_have_different_lanes() -> None:
    nodes = [*chain(3), node("f", "c0", branch="f", second=5), node("g", "c1", branch="g", second=6)]
    assert lanes(*nodes)["f"] != lanes(*nodes)["g"]


def test_a_free_lane_is_reused() -> None:
    nodes = [*chain(8), node("f", "c0", branch="f", second=1), node("g", "c6", branch="g", second=7)]
    assert lanes(*nodes)["f"] == lanes(*nodes)["g"] == 1


def test_a_new_fork_moves_no_existing_lane() -> None:
    nodes = [*chain(5), node("f", "c2", branch="f", second=9), node("g", "c3", branch="g", second=10)]
    before = lanes(*nodes)
    after = lanes(*nodes, node("h", "c0", branch="h", second=20))
    assert {key: after[key] for key in before} == before


def test_a_continued_branch_stays_in_its_lane_next_to_a_dead_end() -> None:
    nodes = [node("a"), node("aside", "a", second=1), node("b", "a", second=1), node("c", "b", second=2)]
    assert lanes(*nodes) == {"a": 0, "aside": 1, "b": 0, "c": 0}


def test_a_second_continuation_of_one_branch_has_its_own_lane() -> None:
    nodes = [*chain(4), node("again", "c1", second=9), node("more", "again", second=10)]
    assert (lanes(*nodes)["c3"], lanes(*nodes)["again"], lanes(*nodes)["more"]) == (0, 1, 1)


def test_only_the_first_branch_uses_the_first_lane() -> None:
    nodes = [*chain(2), node("f", "c0", branch="f", second=5), node("g", "f", branch="g", second=6)]
    assert lanes(*nodes)["g"] == 2
    apart = [*chain(2), node("later", "gone", second=9)]
    assert lanes(*apart)["later"] == 0


def test_no_nodes_have_no_positions() -> None:
    assert lay_out(()) == {}


@pytest.mark.parametrize("seeds", [range(start, start + 250) for start in range(0, 1000, 250)])
def test_no_lines_of_random_forests_overlap(seeds: range) -> None:
    for seed in seeds:
        for lineage in build_forest(random_nodes(seed)):
            assert_no_overlap(lineage, seed)


def assert_no_overlap(lineage: Lineage, seed: int) -> None:
    positions = lay_out(lineage.nodes)
    assert sorted(position.row for position in positions.values()) == list(range(len(lineage.nodes)))
    used: set[tuple[int, int]] = set()
    for place in lineage.nodes:
        at = positions[place.key]
        parent = positions[place.parent] if place.parent else at
        # The line runs in the node's lane, from above its parent's row up to the node.
        for row in range(min(parent.row + 1, at.row), at.row + 1):
            assert (at.lane, row) not in used, (seed, place.key)
            used.add((at.lane, row))


def test_ten_thousand_rows_are_fast_even_if_all_fork_from_one() -> None:
    star = [node("c0"), *(node(f"f{i}", "c0", branch=f"f{i}", second=i) for i in range(1, 10_000))]
    (lineage,) = build_forest(star)
    began = time.thread_time()
    positions = lay_out(lineage.nodes)
    assert time.thread_time() - began < 10
    assert max(position.lane for position in positions.values()) == MAX_LANES - 1
