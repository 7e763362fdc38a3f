"""How parents of checkpoints are determined: recorded, inferred or missing."""

import random
import sys
from collections import Counter
from dataclasses import replace

import pytest

from tests.lineage.forests import by_key, chain, node, nodes_of, random_nodes
from viewer.records.lineage.tree import FaultCode, Node, ParentLink, build_forest


def test_a_recorded_parent_is_followed() -> None:
    nodes_by_key = nodes_of(node("b", "a", second=1), node("a"))
    assert (nodes_by_key["a"].parent, nodes_by_key["a"].parent_link) == (None, ParentLink.ROOT)
    assert (nodes_by_key["b"].parent, nodes_by_key["b"].parent_link) == ("a", ParentLink.RECORDED)


def test_a_missing_parent_leaves_a_gap_with_its_id() -> None:
    found = nodes_of(node("b", "a"))["b"]
    assert (found.parent, found.parent_link, found.missing_id) == (None, ParentLink.MISSING, "a")


def test_a_checkpoint_after_a_gap_is_connected_to_its_nearest_ancestor() -> None:
    found = nodes_of(node("a", events="12"), node("d", "pruned", second=9, events="123456"))["d"]
    assert (found.parent, found.parent_link, found.missing_id) == ("a", ParentLink.MISSING, "pruned")


def test_an_inferred_parent_has_the_largest_subset_of_its_events() -> None:
    nodes_by_key = nodes_of(
        node("a", events="1"), node("b", events="123"), node("x", events="19"), node("c", events="12345")
    )
    assert [nodes_by_key[key].parent for key in "abxc"] == [None, "a", "a", "b"]
    assert [nodes_by_key[key].parent_link for key in "abxc"] == [
        ParentLink.ROOT,
        ParentLink.INFERRED,
        ParentLink.INFERRED,
        ParentLink.INFERRED,
    ]


def test_checkpoints_with_equal_events_are_not_parents_of_each_other() -> None:
    nodes_by_key = nodes_of(node("a", events="12"), node("b", events="12"), node("c", events="123"))
    assert (nodes_by_key["a"].parent_link, nodes_by_key["b"].parent_link) == (
        ParentLink.ROOT,
        ParentLink.ROOT,
    )
    assert nodes_by_key["c"].parent == "a"


def test_nothing_is_inferred_across_runs() -> None:
    nodes_by_key = nodes_of(node("a", events="1", run="one"), node("b", events="12", run="two"))
    assert nodes_by_key["b"].parent_link == ParentLink.ROOT


def test_a_recorded_parent_takes_precedence_over_events() -> None:
    nodes_by_key = nodes_of(node("a", events="1"), node("b", "a", events="12"), node("c", "a", events="123"))
    assert (nodes_by_key["c"].parent, nodes_by_key["c"].parent_link) == ("a", ParentLink.RECORDED)


def test_a_fork_with_another_run_key_belongs_to_the_run_of_its_parent() -> None:
    forest = build_forest([node("a", run="one"), node("b", "a", run="two"), node("c", "gone", run="two")])
    assert [lineage.run_key for lineage in forest] == ["one"]
    assert len(forest[0].nodes) == 3


def test_runs_are_separate_and_ordered_by_their_start() -> None:
    forest = build_forest([node("b", run="two", second=5), node("a", run="one"), node("c", run="", second=1)])
    assert [lineage.run_key for lineage in forest] == ["one", "", "two"]


def test_parents_precede_children_regardless_of_times() -> None:
    nodes_by_key = list(nodes_of(node("b", "a", second=0), node("a", second=9), node("c", second=5)))
    assert nodes_by_key == ["c", "a", "b"]


def test_a_head_has_no_children_on_its_branch() -> None:
    nodes_by_key = nodes_of(node("a"), node("b", "a"), node("c", "a", branch="fork"), node("d", "b"))
    assert {key for key, found in nodes_by_key.items() if found.is_branch_head} == {"c", "d"}


def test_a_node_that_is_its_own_parent_is_reported_and_left_with_a_gap() -> None:
    forest = build_forest([node("a", "a")])
    found, fault = forest[0].nodes[0], forest[0].faults[0]
    assert (found.parent, found.parent_link, found.missing_id) == (None, ParentLink.MISSING, "a")
    assert (fault.code, fault.checkpoint_ids) == (FaultCode.SELF_PARENT, ("a",))


def test_a_cycle_is_reported_and_cut_at_its_earliest_node() -> None:
    nodes = [
        node("a", "c", second=1),
        node("b", "a", second=2),
        node("c", "b", second=3),
        node("d", "c", second=4),
    ]
    forest = build_forest(nodes)
    (lineage,) = forest
    assert [(fault.code, fault.checkpoint_ids) for fault in lineage.faults] == [
        (FaultCode.CYCLE, ("a", "b", "c"))
    ]
    assert [(found.key, found.parent) for found in lineage.nodes] == [
        ("a", None), ("b", "a"), ("c", "b"), ("d", "c"),
    ]  # fmt: skip
    assert lineage.nodes[0].parent_link == ParentLink.MISSING


def test_of_two_nodes_with_one_id_the_parent_is_on_the_same_branch() -> None:
    nodes = [
        node("a", key="main/a"),
        node("a", key="fork/a", branch="fork"),
        node("b", "a", branch="fork", second=3),
    ]
    forest = build_forest(nodes)
    assert by_key(forest)["b"].parent == "fork/a"
    assert (FaultCode.DUPLICATE_ID, ("a", "a")) in [
        (fault.code, fault.checkpoint_ids) for lineage in forest for fault in lineage.faults
    ]


def test_of_two_nodes_with_one_id_the_parent_is_of_the_same_run_rather_than_of_the_same_branch() -> None:
    nodes = [
        node("a", key="other run", branch="fork", run="two"),
        node("a", key="other branch", branch="main", run="one"),
        node("b", "a", branch="fork", run="one", second=3),
    ]
    assert by_key(build_forest(nodes))["b"].parent == "other branch"


def test_two_nodes_with_one_key_are_refused() -> None:
    with pytest.raises(ValueError, match="key"):
        build_forest([node("a", key="same"), node("b", key="same")])


def test_no_nodes_make_an_empty_forest() -> None:
    assert build_forest([]) == ()


@pytest.mark.parametrize("seeds", [range(start, start + 250) for start in range(0, 2000, 250)])
def test_random_forests_have_each_node_once_with_parents_first(seeds: range) -> None:
    for seed in seeds:
        nodes = random_nodes(seed)
        forest = build_forest(nodes)
        order = [found.key for lineage in forest for found in lineage.nodes]
        assert sorted(order) == sorted(node.key for node in nodes), seed
        for lineage in forest:
            seen: set[str] = set()
            for found in lineage.nodes:
                assert found.parent is None or found.parent in seen, seed
                seen.add(found.key)
        random.Random(seed).shuffle(nodes)
        assert build_forest(nodes) == forest, seed


def test_a_chain_of_50_000_nodes_is_built() -> None:
    (lineage,) = build_forest(chain(50_000)[::-1])
    assert [lineage.nodes[0].key, lineage.nodes[-1].key] == ["c0", "c49999"]


def test_the_number_of_steps_is_linear() -> None:
    def steps(length: int) -> int:
        nodes, calls = chain(length), Counter[str]()
        sys.setprofile(lambda frame, event, argument: calls.update([event]))
        build_forest(nodes)
        sys.setprofile(None)
        return calls["call"] + calls["c_call"]

    assert steps(5_000) < 12 * steps(500)


def test_inference_reads_each_event_about_once() -> None:
    nodes = [
        replace(n, parent_id=None, event_ids=tuple(f"e{e}" for e in range(3 * i + 3)))
        for i, n in enumerate(chain(300))
    ]
    nodes_by_key = nodes_of(*nodes)
    assert all(nodes_by_key[f"c{i}"].parent == f"c{i - 1}" for i in range(1, 300))


def labels(*nodes: Node) -> dict[str, str]:
    return {key: entry.branch for key, entry in nodes_of(*nodes).items()}


def heads(*nodes: Node) -> dict[str, str]:
    """The newest node of each branch."""
    return {entry.branch: key for key, entry in nodes_of(*nodes).items() if entry.is_branch_head}


START = (node("a", events="1"), node("b", "a", second=1, events="12"))


def test_a_resume_from_an_earlier_checkpoint_is_another_attempt() -> None:
    resumed = (
        node("c", "b", second=2, events="123"),
        node("x", "b", second=60, events="127"),
        node("y", "x", second=61, events="1278"),
        node("z", "a", second=90, events="19"),
    )
    found = labels(*START, *resumed)
    assert found == {
        **dict.fromkeys("abc", "main"),
        **dict.fromkeys("xy", "main, attempt 2"),
        "z": "main, attempt 3",
    }
    assert heads(*START, *resumed) == {"main": "c", "main, attempt 2": "y", "main, attempt 3": "z"}


def test_a_resume_from_the_newest_checkpoint_continues_its_branch() -> None:
    assert set(labels(*START, node("c", "b", second=900, events="1278")).values()) == {"main"}


def test_checkpoints_of_threads_that_write_at_the_same_time_are_one_attempt() -> None:
    together = (
        node("c", "b", second=2, events="1234"),
        node("d", "c", second=2, events="12345"),
        node("e", "b", second=2, events="123"),
    )
    assert set(labels(*START, *together).values()) == {"main"}
    counted = [replace(one, event_count=len(one.event_ids)) for one in (*START, *together)]
    assert heads(*counted) == {"main": "d"}


def test_a_second_fork_of_one_name_is_another_attempt_unless_the_name_is_taken() -> None:
    forks = (
        node("f", "a", branch="try", second=2, events="13"),
        node("g", "b", branch="try", second=3, events="124"),
        node("h", "b", branch="try, attempt 3", second=4, events="125"),
        node("i", "f", branch="try", second=5, events="136"),
        node("j", "a", branch="try", second=6, events="17"),
    )
    found = labels(*START, *forks)
    assert [found[key] for key in "fghij"] == [
        "try",
        "try, attempt 2",
        "try, attempt 3",
        "try",
        "try, attempt 4",
    ]


def test_checkpoints_without_recorded_events_are_one_attempt() -> None:
    assert set(labels(node("a"), node("b", "a", second=1), node("c", "a", second=2)).values()) == {"main"}
