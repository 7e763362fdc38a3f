"""The graph of a run: its chains, and their layout by dot."""

from pathlib import Path

import pytest

from viewer.lineage.drawing import NoLayout
from viewer.lineage.run_graph import MAX_NODES, NODE_HEIGHT, NODE_WIDTH, Chain, Link, collapse, lay_out
from viewer.lineage.tree import ParentLink


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


def test_too_many_forks_are_not_laid_out() -> None:
    chains = [Chain(number, "main", ParentLink.ROOT, None) for number in range(MAX_NODES + 1)]
    with pytest.raises(NoLayout, match="too many"):
        lay_out(chains)


def test_dot_receives_no_text_of_a_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path, monkeypatch, f"/bin/cat > {tmp_path}/asked\necho 'graph 1 1 1'")
    lay_out([Chain(1, '<b>"evil" URL=x', ParentLink.ROOT, None)])
    assert "evil" not in (tmp_path / "asked").read_text()
