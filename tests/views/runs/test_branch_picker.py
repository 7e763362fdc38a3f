"""The branch picker reaches every branch of a run."""

import re
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from tests.lineage.generated_runs import generated_run
from tests.sharing.conftest import share, stranger
from viewer.models import Run
from viewer.presentation.run.branches import MAX_BRANCHES, branches_left_out, branches_of
from viewer.records.run_rows import update_statuses

pytestmark = pytest.mark.postgresql

__all__ = ["stranger"]
BRANCHES = 400


@pytest.fixture
def run(db: None) -> Run:
    """A run with 400 branches of one checkpoint each."""
    run = generated_run(BRANCHES)
    rows = list(run.checkpoints.order_by("row"))
    for number, row in enumerate(rows):
        row.branch = f"Idea-{number:03}"
    run.checkpoints.bulk_update(rows, ["branch"])
    return Run.objects.get(pk=run.pk)


def names_in(html: str) -> list[str]:
    return re.findall(r'data-name="([^"]+)"', html)


def found(reader: Client, run: Run, **query: str) -> str:
    answer = reader.get(reverse("run-branches", args=[run.uid]), query, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_the_newest_are_listed_and_the_others_counted(run: Run) -> None:
    shown = branches_of(run)
    assert [one.name for one in shown[:2]] == ["Idea-399", "Idea-398"] and len(shown) == MAX_BRANCHES
    assert branches_left_out(run, shown) == BRANCHES - MAX_BRANCHES
    assert branches_left_out(run, branches_of(run, "idea-00"), "idea-00") == 0


def test_a_branch_that_is_imported_meanwhile_is_listed(run: Run) -> None:
    assert len(run.branch_names) == BRANCHES
    run.checkpoints.filter(branch="Idea-399").update(branch="new")
    assert branches_of(run)[0].name == "new"


def test_every_branch_is_found_by_its_name(reader: Client, run: Run) -> None:
    page = reader.get(run.get_absolute_url()).content.decode()
    assert "300 more branches" in page and reverse("run-branches", args=[run.uid]) in page
    assert "Idea-007" not in names_in(page)
    for number in (0, 7, 250, 399):
        assert names_in(found(reader, run, named=f"idea-{number:03}")) == [f"Idea-{number:03}"]
    assert names_in(found(reader, run, named="nothing")) == []
    assert "300 more branches" in found(reader, run, named="idea")


def test_what_is_found_keeps_the_address_of_the_page(reader: Client, run: Run) -> None:
    html = found(reader, run, named="idea-007", muted="others", at="x")
    assert "named=" not in html and "muted=others" in html


def test_the_timeline_finds_every_branch(reader: Client, run: Run) -> None:
    timeline = reverse("run-timeline", args=[run.uid])
    page = reader.get(timeline).content.decode()
    assert "300 more branches" in page and "Idea-007" not in names_in(page)
    finder = unescape(re.findall(r'hx-get="([^"]*run[^"]*branches[^"]*)"', page)[0])
    html = reader.get(f"{finder}&named=idea-007").content.decode()
    assert names_in(html) == ["Idea-007"] and f'href="{timeline}?branch=Idea-007"' in html
    assert reader.get(f"{timeline}?branch=Idea-007").context["branch"] == "Idea-007"


def test_a_shared_run_finds_its_own_branches_only(run: Run, stranger: Client) -> None:
    address = share("run", str(run.uid))
    page = stranger.get(address).content.decode()
    assert "300 more branches" in page and "Idea-007" not in names_in(page)
    assert reverse("run-branches", args=[run.uid]) not in page
    answer = stranger.get(address, {"named": "idea-007"}, headers={"HX-Target": "run-branches"})
    html = answer.content.decode()
    assert names_in(html) == ["Idea-007"] and re.findall(r'href="([^"]*)"', html) == ["?branch=Idea-007"]


def test_a_run_with_few_branches_is_searched_in_the_page(reader: Client, crew_run: Run) -> None:
    page = reader.get(crew_run.get_absolute_url()).content.decode()
    assert reverse("run-branches", args=[crew_run.uid]) not in page


def test_branches_have_a_status_if_there_are_several(reader: Client, crew_run: Run) -> None:
    """The fork has finished two of three tasks, and so has the branch that it left."""
    page = reader.get(crew_run.get_absolute_url()).content.decode()
    assert page.count('<span class="muted">not finished</span>') == 2
    crew_run.checkpoints.filter(branch="exp-a", is_branch_head=True).update(ended_as="cancelled")
    crew_run.checkpoints.filter(branch="main", is_branch_head=True).update(ended_as="completed")
    update_statuses([crew_run.pk])
    page = reader.get(crew_run.get_absolute_url()).content.decode()
    assert '<span class="muted">cancelled</span>' in page
    assert "(1 completed, 1 cancelled)" in " ".join(page.split())
    home = reader.get("/").content.decode()
    assert '<span class="chip run-branches">1 completed, 1 cancelled</span>' in home
    assert '<span class="status status-run-completed">completed</span>' in home
