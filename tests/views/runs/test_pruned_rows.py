"""Consecutive pruned checkpoints are one line that links to each of them."""

from itertools import pairwise

import pytest
from django.test import Client

from tests.lineage.generated_runs import generated_run
from viewer.models import Checkpoint, Run
from viewer.presentation.run.window import Wanted, window_of


@pytest.fixture
def pruned_run(db: None) -> Run:
    """Create a branch of twelve checkpoints, seven of which are pruned."""
    run = generated_run(12)
    rows = list(run.checkpoints.order_by("row"))
    for parent, row in pairwise(rows):
        row.parent, row.lane, row.branch, row.parent_link = (
            parent,
            0,
            rows[0].branch,
            Checkpoint.ParentLink.RECORDED,
        )
        row.is_branch_head = row is rows[-1]
        row.state = Checkpoint.State.PRUNED if 2 <= row.row <= 8 else Checkpoint.State.PRESENT
        row.save()
    return run


def page_of(client: Client, run: Run, query: str = "") -> str:
    return client.get(f"{run.get_absolute_url()}?{query}").content.decode()


def test_consecutive_pruned_checkpoints_are_one_row(reader: Client, pruned_run: Run) -> None:
    page = page_of(reader, pruned_run)
    assert "7 pruned checkpoints (stored copies)" in page and ">Show each one</span>" in page
    assert page.count('<li class="row') == 12 - 7 + 1


def test_the_line_through_them_is_dotted_and_as_high_as_the_list(pruned_run: Run) -> None:
    window = window_of(pruned_run, Wanted())
    assert [line.stroke for line in window.drawing.lines].count("folded") == 2
    assert window.drawing.height == 30 * len(window.lines)
    assert len(window.drawing.dots) == len(window.lines) - 1


def test_pruned_checkpoints_are_shown_on_request(reader: Client, pruned_run: Run) -> None:
    page = page_of(reader, pruned_run, "pruned=shown")
    assert page.count('<li class="row') == 12
    assert "Collapse pruned checkpoints" in page


def test_a_link_to_a_pruned_checkpoint_opens_it(reader: Client, pruned_run: Run) -> None:
    one = pruned_run.checkpoints.filter(state=Checkpoint.State.PRUNED).order_by("row")[1]
    page = page_of(reader, pruned_run, f"at={one.checkpoint_id}")
    assert f'id="c{one.pk}"' in page
    assert page.count('<li class="row') == 12 - 5 + 1
    assert ">pruned</span>" in page


def test_the_start_of_a_fork_has_its_own_row(pruned_run: Run) -> None:
    left = pruned_run.checkpoints.get(row=3)
    pruned_run.checkpoints.filter(row=11).update(parent=left, branch="fork/elsewhere", lane=1)
    lines = window_of(pruned_run, Wanted()).lines
    assert [line.folded for line in lines if line.folded] == [5]
    assert left.pk in {line.checkpoint.pk for line in lines if not line.folded}
