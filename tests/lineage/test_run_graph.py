"""The graph of a run: its chains, and their layout by dot."""

from pathlib import Path

import pytest

from viewer.records.lineage.graphs import (
    MAX_DRAWN,
    MAX_SIBLINGS,
    NODE_HEIGHT,
    NODE_WIDTH,
    Chain,
    Link,
    NoLayout,
    collapse,
    fold_forks,
    lay_out,
)
from viewer.records.lineage.tree import ParentLink


def link(
    key: int, parent: int | None = None, branch: str = "main", parent_link: ParentLink | None = None
) -> Link:
    return Link(
        key, parent, branch, parent_link or (ParentLink.ROOT if parent is None else ParentLink.RECORDED)
    )


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let ``dot`` be this script."""
    dot = folder / "dot"
    dot.write_text(f"#!/bin/sh\n{script}\n")
    dot.chmod(0o700)
    monkeypatch.setenv("PATH", str(folder))


def test_a_chain_without_forks_is_one_node() -> None:
    links = [link(0), link(1, 0), link(2, 1), link(3, 1, "fork"), link(4, 3, "fork")]
    chains, chain_of = collapse(links)
    assert [(one.last, one.count, one.parent) for one in chains] == [(1, 2, None), (2, 1, 0), (4, 2, 0)]
    assert chain_of == {0: 0, 1: 0, 2: 1, 3: 2, 4: 2}


def test_a_gap_splits_a_chain() -> None:
    chains, _ = collapse([link(0), link(1, 0, parent_link=ParentLink.MISSING)])
    assert [(one.last, one.parent_link) for one in chains] == [(0, ParentLink.ROOT), (1, ParentLink.MISSING)]


def test_parents_in_a_circle_are_left_out() -> None:
    chains, _ = collapse([link(0, 1), link(1, 0)])
    assert [(one.last, one.parent) for one in chains] == [(1, None)]


def test_the_graph_runs_from_left_to_right_without_overlaps() -> None:
    layout = lay_out(collapse([link(0), link(1, 0, "fork"), link(2, 0)])[0])
    (first_x, _), *others = (layout.centres[number] for number in range(3))
    assert all(x >= first_x + NODE_WIDTH for x, _ in others)
    assert abs(others[0][1] - others[1][1]) >= NODE_HEIGHT
    assert layout.paths.keys() == {1, 2} and all(path.startswith("M") for path in layout.paths.values())


def test_without_dot_no_graph_is_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoLayout, match="not installed"):
        lay_out(collapse([link(0)])[0])


def test_a_dot_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path, monkeypatch, "exec /bin/sleep 60")
    with pytest.raises(NoLayout, match="too long"):
        lay_out(collapse([link(0)])[0], seconds=0.2)


def test_a_failing_dot_process_does_not_fail_the_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(tmp_path, monkeypatch, "exit 3")
    with pytest.raises(NoLayout, match="failed"):
        lay_out(collapse([link(0)])[0])


def siblings(count: int) -> list[Chain]:
    """Return a run whose first chain is continued by itself and by many forks."""
    links = [link(0), link(1, 0), *(link(number, 0, f"fork-{number}") for number in range(2, count + 2))]
    return collapse(links)[0]


def test_many_forks_of_one_checkpoint_are_one_node() -> None:
    chains = siblings(2000)
    shown, places = fold_forks(chains, [], {})
    assert [(one.branch, one.forks, one.count) for one in shown] == [
        ("main", 0, 1),
        ("main", 0, 1),
        ("", 2000, 2000),
    ]
    assert places[:2] == [0, 1] and set(places[2:]) == {2}
    layout = lay_out(shown, seconds=60)
    assert layout.centres.keys() == {0, 1, 2} and layout.paths.keys() == {1, 2}


def test_a_few_forks_are_drawn_one_by_one() -> None:
    chains = siblings(MAX_SIBLINGS - 1)
    assert fold_forks(chains, [], {}) == (chains, list(range(len(chains))))


def test_opened_forks_are_drawn_newest_first_and_those_wanted_always() -> None:
    chains = siblings(2000)
    shown, _places = fold_forks(chains, [7], {0: 50})
    drawn = [one.branch for one in shown if not one.forks and one.branch != "main"]
    assert drawn == ["fork-7", *(f"fork-{number}" for number in range(1952, 2002))]
    assert [one.forks for one in shown if one.forks] == [1949]


def test_what_follows_a_folded_fork_is_folded_with_it() -> None:
    links = [link(0), *(link(number, 0, f"fork-{number}") for number in range(1, 60))]
    links += [link(100 + number, number, f"again-{number}") for number in range(1, 60)]
    shown, places = fold_forks(collapse(links)[0], [], {})
    assert [(one.forks, one.count) for one in shown] == [(0, 1), (59, 118)] and set(places[1:]) == {1}


@pytest.mark.parametrize("width", [1, 2, 5, 60])
def test_a_lineage_of_any_size_and_shape_is_drawn(width: int) -> None:
    links = [link(0), *(link(at, (at - 1) // width, f"fork-{at}") for at in range(1, 5001))]
    chains, _chain_of = collapse(links)
    shown, places = fold_forks(chains, [len(chains) - 1], {})
    assert len([one for one in shown if not one.forks]) <= MAX_DRAWN
    assert len(places) == len(chains) and set(places) == set(range(len(shown)))
    assert sum(one.count for one in shown) == 5001, "Each checkpoint is in one node."
    assert all(one.parent is None or one.parent < at for at, one in enumerate(shown))
    # On a busy machine, it may take longer than a page waits.
    assert len(lay_out(shown, seconds=60).centres) == len(shown)


def test_dot_receives_no_text_of_a_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path, monkeypatch, f"/bin/cat > {tmp_path}/asked\necho 'graph 1 1 1'")
    lay_out([Chain(1, '<b>"evil" URL=x', ParentLink.ROOT, None)])
    assert "evil" not in (tmp_path / "asked").read_text()
