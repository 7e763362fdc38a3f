"""Collapsed stretches and branches, hidden started rows and muted rows on the page of a run."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from tests.lineage.generated_runs import branched_run, generated_run
from viewer.models import Run
from viewer.presentation.run.window import ROWS, Collapsing, Wanted, Window, window_of

pytestmark = pytest.mark.postgresql

EVERYTHING = Collapsing(everything=True)


@pytest.fixture
def run(db: None) -> Run:
    """Create three branches of six checkpoints. The forks leave the first one of main."""
    return branched_run(("main", "year-2030", "shorter"))


def branches(window: Window) -> list[tuple[str, int]]:
    return [(line.checkpoint.branch, line.hidden) for line in window.lines]


def page_of(client: Client, run: Run, query: str) -> str:
    return client.get(f"{run.get_absolute_url()}?{query}").content.decode()


def toggles(page: str) -> list[str]:
    return [
        one.replace("&amp;", "&") for one in re.findall(r'<a class="row-toggle[^>]*href="\?([^"]*)"', page)
    ]


def test_everything_is_collapsed_into_one_line_for_each_stretch(run: Run) -> None:
    window = window_of(run, Wanted(collapsing=EVERYTHING))
    assert branches(window) == [("shorter", 5), ("year-2030", 5), ("main", 4), ("main", 0)]
    assert [line.stroke for line in window.drawing.lines] == ["folded"] * 3
    assert window.drawing.height == 4 * 30


def test_a_branch_is_collapsed_from_the_list_of_branches(reader: Client, run: Run) -> None:
    page = page_of(reader, run, "collapsed-branch=shorter")
    assert page.count('<li class="row') == 18 - 5
    assert "5 collapsed" in page
    assert 'title="shorter">Expand</a>' in page and 'title="main">Collapse</a>' in page


def test_the_arrow_of_a_row_collapses_its_stretch_and_expands_it_again(reader: Client, run: Run) -> None:
    first = toggles(page_of(reader, run, ""))
    assert len(first) == 3
    collapsed = page_of(reader, run, first[0])
    assert collapsed.count('<li class="row') == 13
    assert page_of(reader, run, toggles(collapsed)[0]).count('<li class="row') == 18


def test_one_stretch_of_everything_is_expanded_and_collapsed_again(reader: Client, run: Run) -> None:
    page = page_of(reader, run, "collapse=all&tab=raw")
    expanded = toggles(page)[1]
    assert "expanded=" in expanded and "tab=raw" in expanded
    page = page_of(reader, run, expanded)
    assert page.count('<li class="row') == 4 + 5
    assert page_of(reader, run, toggles(page)[1]).count('<li class="row') == 4


def test_a_stretch_stays_collapsed_when_it_grows(run: Run) -> None:
    named = run.checkpoints.filter(branch="shorter").order_by("-row")[2]
    window = window_of(run, Wanted(collapsing=Collapsing(collapsed=(named.checkpoint_id,))))
    assert branches(window)[0] == ("shorter", 5)


def test_the_selected_checkpoint_is_never_hidden(run: Run) -> None:
    selected = run.checkpoints.filter(branch="shorter").order_by("-row")[2]
    window = window_of(run, Wanted(at=selected.checkpoint_id, collapsing=EVERYTHING))
    assert [hidden for branch, hidden in branches(window) if branch == "shorter"] == [1, 3]
    assert [line.hidden for line in window.lines if line.selected] == [3]


@pytest.mark.parametrize("to", ["head", "fork", "failure"])
def test_a_jump_shows_its_target_and_leaves_the_rest_collapsed(reader: Client, run: Run, to: str) -> None:
    run.checkpoints.filter(branch="shorter", row=11).update(trigger="task_failed")
    answer = reader.get(reverse("run-jump", args=[run.uid]), {"to": to, "of": "shorter", "collapse": "all"})
    page = reader.get(answer["Location"]).content.decode()
    assert 'aria-current="true"' in "".join(re.findall(r'<a href="\?at=[^>]*id="c\d+"[^>]*>', page))
    assert page.count('<li class="row') in (4, 5)


def test_started_rows_are_hidden_and_their_forks_are_not(run: Run) -> None:
    run.checkpoints.update(trigger="task_started")
    window = window_of(run, Wanted(collapsing=Collapsing(hides_started=True)))
    heads_and_fork = {row.pk for row in run.checkpoints.filter(is_branch_head=True)}
    heads_and_fork.add(run.checkpoints.get(row=0).pk)
    assert {line.checkpoint.pk for line in window.lines} == heads_and_fork
    assert not any(line.hidden for line in window.lines)
    assert {line.stroke for line in window.drawing.lines} == {"recorded"}


def test_what_is_no_ancestor_of_the_selected_checkpoint_is_muted(reader: Client, run: Run) -> None:
    selected = run.checkpoints.filter(branch="year-2030").order_by("-row")[1]
    window = window_of(run, Wanted(at=selected.checkpoint_id, mutes=True))
    shown = {line.checkpoint.pk for line in window.lines if not line.muted}
    own = {row.pk for row in run.checkpoints.filter(branch="year-2030", row__lte=selected.row)}
    assert shown == own | {run.checkpoints.get(row=0).pk}
    assert sum(not dot.muted for dot in window.drawing.dots) == len(shown)
    page = page_of(reader, run, f"at={selected.checkpoint_id}&muted=others")
    assert page.count('<li class="row is-muted">') == 18 - len(shown)
    assert "selection-changed from:body" in page


def test_windows_of_collapsed_rows_have_each_line_once(db: None) -> None:
    run = generated_run(450)
    started = Collapsing(hides_started=True)
    wanted = Wanted(collapsing=started)
    seen: list[int] = []
    while True:
        window = window_of(run, wanted)
        assert len(window.lines) <= ROWS
        seen += [line.checkpoint.row for line in window.lines]
        if window.older is None:
            break
        wanted = Wanted(top=window.older, collapsing=started)
    whole = window_of(run, Wanted(bottom=0, collapsing=started))
    assert seen == [line.checkpoint.row for line in whole.lines]
    assert 2 * ROWS < len(seen) < 450


def test_a_selection_far_down_is_shown_among_collapsed_neighbours(db: None) -> None:
    run = generated_run(450)
    deep = run.checkpoints.get(row=30)
    window = window_of(run, Wanted(at=deep.checkpoint_id, collapsing=Collapsing(hides_started=True)))
    assert any(line.selected for line in window.lines) and window.newer is not None


def test_one_branch_collapses_with_its_ancestors(run: Run) -> None:
    window = window_of(run, Wanted(branch="shorter", collapsing=EVERYTHING))
    assert branches(window) == [("shorter", 5), ("main", 0)]


def test_a_failed_list_ignores_what_is_collapsed(reader: Client, run: Run) -> None:
    run.checkpoints.update(trigger="task_failed")
    page = page_of(reader, run, "only=failed&collapse=all")
    assert page.count('<li class="row') == 18 and not toggles(page)


@pytest.mark.parametrize(
    "query", ["collapse=x", "collapsed=%00", "expanded=nothing", "collapsed-branch=", "muted=1"]
)
def test_unknown_values_collapse_nothing(reader: Client, run: Run, query: str) -> None:
    assert page_of(reader, run, query).count('<li class="row') == 18
