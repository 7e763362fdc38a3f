"""The page of a run: the list, the lanes, the selection and rows loaded later."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from tests.lineage.generated_runs import branched_run, generated_run
from viewer.host.locations.importing import import_location
from viewer.models import Annotation, Checkpoint, Job, Location, Run
from viewer.presentation.run.branches import edited_checkpoints
from viewer.presentation.run.window import ROWS, Wanted, window_of

pytestmark = pytest.mark.postgresql

PART = {"HX-Request": "true", "HX-Target": "detail"}


def page_of(client: Client, run: Run, query: str = "") -> str:
    answer = client.get(f"{run.get_absolute_url()}?{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_run_lists_its_checkpoints_newest_first(reader: Client, crew_run: Run) -> None:
    page = page_of(reader, crew_run)
    ids = [row.checkpoint_id for row in crew_run.checkpoints.order_by("-row")]
    positions = [page.index(f"?at={checkpoint_id}") for checkpoint_id in ids]
    assert len(ids) == 6 and positions == sorted(positions)
    assert "2 branches" in page and "6 checkpoints" in page


def test_the_progress_of_a_flow_counts_the_methods_of_its_run(
    reader: Client, imported: Callable[[str], Location]
) -> None:
    run = imported("1.14.7/flow").runs.get()
    page = page_of(reader, run, "tab=overview")
    assert re.findall(r'class="row-count"[^>]*>([^<]*)<', page) == ["3 done", "2/3", "1/3"]
    # Full bars and a number of the checkpoint alone would look complete.
    assert re.findall(r'class="bar ([^"]*)"', page) == ["is-done", "is-done", "", "is-done", "", ""]
    assert "<dt>Progress</dt><dd>3 done</dd>" in page
    oldest = run.checkpoints.earliest("row")
    assert "<dt>Progress</dt><dd>1 of 3</dd>" in page_of(
        reader, run, f"at={oldest.checkpoint_id}&tab=overview"
    )


def test_the_progress_of_a_flow_needs_no_query_per_row(
    reader: Client, imported: Callable[[str], Location]
) -> None:
    run = imported("1.14.7/flow").runs.get()
    with CaptureQueriesContext(connection) as before:
        page_of(reader, run)
    rows = list(run.checkpoints.all())
    for number, row in enumerate(rows * 5):
        row.pk, row.row, row.source_key, row.checkpoint_id = (
            None,
            3 + number,
            f"made {number}",
            f"made {number}",
        )
        row.save()
    with CaptureQueriesContext(connection) as after:
        page_of(reader, run, f"at={run.checkpoints.get(row=2).checkpoint_id}")
    assert run.checkpoints.count() == 18 and len(after) <= len(before) + 1


def test_the_name_of_a_branch_is_shown_once(reader: Client, crew_run: Run) -> None:
    page = page_of(reader, crew_run)
    rows = page[page.index('<section class="rows') : page.index("</section>")]
    assert rows.count(">exp-a<") == 1 and rows.count(">main<") == 1


def test_a_fork_is_drawn_from_its_parent(reader: Client, crew_run: Run) -> None:
    window = window_of(crew_run, Wanted())
    fork = next(line for line in window.drawing.lines if "Q" in line.path)
    assert fork.colour == 1
    assert f'd="{fork.path}"' in page_of(reader, crew_run)


def test_the_newest_checkpoint_is_selected_by_default(reader: Client, crew_run: Run) -> None:
    newest, *_, oldest = crew_run.checkpoints.order_by("-row")
    assert f'id="selection" name="at" value="{newest.checkpoint_id}"' in page_of(reader, crew_run)
    page = page_of(reader, crew_run, f"at={oldest.checkpoint_id}")
    assert f'id="selection" name="at" value="{oldest.checkpoint_id}"' in page
    assert f'id="c{oldest.pk}" data-parent="" aria-current="true"' in page


def test_selecting_returns_the_same_detail_as_the_page(reader: Client, crew_run: Run) -> None:
    query = f"at={crew_run.checkpoints.earliest('row').checkpoint_id}&tab=tasks"
    answer = reader.get(f"{crew_run.get_absolute_url()}?{query}", headers=PART)
    part = answer.content.decode().strip()
    assert part.startswith("<title>") and part.endswith("</aside>")
    assert "HX-Target" in answer["Vary"]
    assert part[part.index("<aside") :] in page_of(reader, crew_run, query)


def test_an_unknown_selection_shows_a_message(reader: Client, crew_run: Run) -> None:
    assert "Checkpoint not found" in page_of(reader, crew_run, "at=20990101T000000_00000000")


def test_an_unknown_run_is_not_found(reader: Client) -> None:
    assert reader.get(reverse("run", args=[uuid4()])).status_code == 404
    assert reader.get(reverse("run-rows", args=[uuid4()])).status_code == 404


def test_failures_can_be_filtered(reader: Client, crew_run: Run) -> None:
    assert "No failed checkpoints." in page_of(reader, crew_run, "only=failed")
    failed = crew_run.checkpoints.earliest("row")
    Checkpoint.objects.filter(pk=failed.pk).update(trigger="task_failed")
    page = page_of(reader, crew_run, "only=failed")
    assert page.count('<li class="row') == page.count('<li class="row is-failed"') == 1
    assert "task failed" in page


def test_the_first_checkpoint_after_an_edit_shows_the_edit(
    reader: Client, crew_run: Run, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    first = crew_run.checkpoints.filter(branch="exp-a").earliest("row")
    Job.objects.create(
        kind="fork",
        location=crew_run.location,
        run=crew_run,
        checkpoint=first.parent,
        branch="exp-a",
        request={"branch": "exp-a", "inputs": {"year": 2030}, "outputs": {"t1": {"text": "x"}}},
        plan=[{"unit": "t1", "title": "Research"}],
        status=Job.Status.SUCCEEDED,
    )
    # The jobs of a run are read together, and so are their first checkpoints.
    with django_assert_num_queries(2):
        edited_checkpoints(crew_run)
    page = page_of(reader, crew_run)
    assert page.count("edited: Research, year") == 1
    assert page.count("dot is-edit") == 1


def test_another_model_is_shown_as_an_edit(reader: Client, crew_run: Run) -> None:
    first = crew_run.checkpoints.filter(branch="exp-a").earliest("row")
    Job.objects.create(
        kind="fork",
        location=crew_run.location,
        run=crew_run,
        checkpoint=first.parent,
        branch="exp-a",
        request={"branch": "exp-a", "options": {"models": {"*": "o3"}}},
        status=Job.Status.SUCCEEDED,
    )
    assert page_of(reader, crew_run).count("edited: model") == 1


def test_the_first_checkpoint_of_a_fork_without_edits_is_marked_as_forked(
    reader: Client, crew_run: Run
) -> None:
    first = crew_run.checkpoints.filter(branch="exp-a").earliest("row")
    crew_run.checkpoints.filter(pk=first.pk).update(trigger="")
    crew_run.checkpoints.filter(row=2).update(trigger="")
    page = page_of(reader, crew_run)
    assert page.count(">forked<") == 1
    # The runner requested this checkpoint, so it is no fork.
    assert page.count("written on request") == 1
    assert "<h2>exp-a, forked</h2>" in reader.get(first.get_absolute_url(), follow=True).content.decode()


def test_a_pruned_checkpoint_is_shown_as_pruned(reader: Client, crew_run: Run) -> None:
    crew_run.checkpoints.filter(row=2).update(state=Checkpoint.State.PRUNED)
    assert page_of(reader, crew_run).count(">pruned</span>") == 1


def test_lineage_faults_are_shown(reader: Client, crew_run: Run) -> None:
    faults = [
        {"code": "self_parent", "ids": ["<b>"], "count": 1},
        {"code": "duplicate_id", "ids": ["id-1", "id-2"], "count": 4},
    ]
    Run.objects.filter(pk=crew_run.pk).update(lineage_faults=faults)
    page = page_of(reader, crew_run)
    assert "names itself as its parent: &lt;b&gt;." in page
    assert "the same id: id-1, id-2 and 2 more." in page


def test_the_graph_links_each_chain(reader: Client, crew_run: Run) -> None:
    page = page_of(reader, crew_run, "view=graph")
    assert page.count("graph-node lane-") == 2
    assert ">exp-a<" in page


def test_without_dot_the_list_is_shown_instead(
    reader: Client, crew_run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    page = page_of(reader, crew_run, "view=graph")
    assert "The lineage cannot be drawn" in page
    assert page.count('class="row"') == 6


def test_a_long_run_is_drawn_in_windows(reader: Client, db: None) -> None:
    length = 2 * ROWS + 50
    run = generated_run(length)
    page = page_of(reader, run)
    assert page.count('<li class="row') == ROWS
    older = f"from={length - 1 - ROWS}"
    assert f"?{older}" in page and "Older checkpoints" in page
    rows = reader.get(f"{reverse('run-rows', args=[run.uid])}?{older}").content.decode()
    assert rows.count('<li class="row') == ROWS and "Newer checkpoints" not in rows
    last = reader.get(f"{reverse('run-rows', args=[run.uid])}?from={length - 1 - 2 * ROWS}").content.decode()
    assert last.count('<li class="row') == 50
    assert "Older checkpoints" not in last


def test_windows_have_each_row_once_and_their_lines_continue(db: None) -> None:
    run = generated_run(450)
    seen: list[int] = []
    top: int | None = None
    while True:
        window = window_of(run, Wanted(top=top))
        seen += [line.checkpoint.row for line in window.lines]
        if window.older is None:
            break
        crossing = run.checkpoints.filter(row__gt=window.older, parent__row__lte=window.older).count()
        below = window_of(run, Wanted(top=window.older))
        from_above = [line for line in below.drawing.lines if line.path.split("V")[0].endswith(" 0")]
        assert len(from_above) == crossing > 0
        top = window.older
    assert seen == list(range(449, -1, -1))


def test_a_selection_far_down_is_shown_among_its_neighbours(reader: Client, db: None) -> None:
    run = generated_run(450)
    deep = run.checkpoints.get(row=30)
    page = page_of(reader, run, f"at={deep.checkpoint_id}")
    assert f'id="c{deep.pk}"' in page
    assert "Newer checkpoints" in page


def test_shown_rows_are_refreshed(reader: Client, crew_run: Run) -> None:
    rows = reverse("run-rows", args=[crew_run.uid])
    selected = crew_run.checkpoints.get(row=4)
    answer = reader.get(f"{rows}?to=3&at={selected.checkpoint_id}").content.decode()
    assert answer.count('<li class="row') == 3
    assert 'hx-swap-oob="true"' in answer
    assert f'id="c{selected.pk}" data-parent="{selected.parent_id}" aria-current="true"' in answer


@pytest.mark.parametrize(
    "query", ["from=-1", "from=x", "from=9999999999999999999", "to=%00", "at=%00", "tab=x&view=y"]
)
def test_invalid_query_values_are_ignored(reader: Client, crew_run: Run, query: str) -> None:
    assert "research" in page_of(reader, crew_run, query)


def test_a_thousand_checkpoints_need_at_most_one_more_query_than_ten(reader: Client, db: None) -> None:
    query_counts: list[int] = []
    for run in (generated_run(10), generated_run(1000)):
        reader.get(run.get_absolute_url())
        with CaptureQueriesContext(connection) as queries:
            reader.get(run.get_absolute_url())
        query_counts.append(len(queries))
    assert query_counts[0] in (query_counts[1], query_counts[1] - 1) and query_counts[1] <= 24


def test_a_run_of_an_unreadable_location_shows_the_error(reader: Client, crew_run: Run) -> None:
    path = Path(crew_run.location.path)
    path.rename(path.with_name("elsewhere"))
    import_location(crew_run.location)
    assert "This location cannot be read: There is nothing at this path" in page_of(reader, crew_run)


@pytest.mark.parametrize("page", ["/", "/inbox/"])
def test_a_waiting_run_opens_at_the_checkpoint_that_waits(reader: Client, crew_run: Run, page: str) -> None:
    waiting = crew_run.checkpoints.get(branch="main", is_branch_head=True)
    Checkpoint.objects.filter(pk=waiting.pk).update(ended_as="waiting")
    crew_run.checkpoints.filter(branch="exp-a", is_branch_head=True).update(ended_as="completed")
    Run.objects.filter(pk=crew_run.pk).update(status=Run.Status.WAITING)
    newest = crew_run.checkpoints.order_by("row").last()
    assert newest and newest.branch != waiting.branch
    link = f"{reverse('run-jump', args=[crew_run.uid])}?to=waiting"
    assert f'href="{link}"' in reader.get(page).content.decode()
    assert reader.get(link)["Location"].endswith(f"at={waiting.checkpoint_id}")


@pytest.mark.parametrize(("to", "found"), [("head", True), ("fork", True), ("failure", False), ("x", False)])
def test_jumps_lead_to_checkpoints_of_a_branch(reader: Client, crew_run: Run, to: str, found: bool) -> None:
    address = reverse("run-jump", args=[crew_run.uid])
    answer = reader.get(address, {"to": to, "branch": "exp-a"})
    assert answer.status_code == 302 and ("at=" in answer["Location"]) is found


def test_only_jumps_that_lead_somewhere_are_offered(reader: Client, crew_run: Run) -> None:
    main, fork = (crew_run.checkpoints.filter(branch=branch).latest("row") for branch in ("main", "exp-a"))
    page = page_of(reader, crew_run, f"at={main.checkpoint_id}")
    assert "?to=head" in page and "?to=fork" not in page and "?to=failure" not in page
    assert "?to=fork" in page_of(reader, crew_run, f"at={fork.checkpoint_id}")
    crew_run.checkpoints.filter(pk=fork.pk).update(trigger="task_failed")
    assert "?to=failure" in page_of(reader, crew_run)
    assert "?to=failure" not in page_of(reader, crew_run, "branch=main")


def test_an_edited_input_shows_its_values_before_and_after(reader: Client, crew_run: Run) -> None:
    start = crew_run.checkpoints.filter(branch="main").order_by("row").last()
    request = {"branch": "exp-a", "inputs": {"year": 2032}, "kept": {"inputs": {"year": 2032}}}
    Job.objects.create(
        kind="fork",
        location=crew_run.location,
        run=crew_run,
        checkpoint=start,
        branch="exp-a",
        request=request,
    )
    assert "edited: year 2026 → 2032" in reader.get(crew_run.get_absolute_url()).content.decode()


def forked_run(count: int) -> Run:
    """Return a run in which as many branches fork from one checkpoint of main."""
    run = branched_run(("main", *(f"fork-{number}" for number in range(count))), 2)
    run.checkpoints.update(trigger="task_completed")
    return run


def nodes_in(page: str) -> list[str]:
    return re.findall(r'class="graph-branch"[^>]*>([^<]*)<', page)


def test_two_thousand_forks_are_one_node_that_opens(reader: Client, db: None) -> None:
    run = forked_run(2000)
    run.checkpoints.filter(branch="fork-3").update(trigger="task_failed")
    page = page_of(reader, run, "view=graph")
    assert "1,999 forks" in page and "cannot be drawn" not in page and "1 failed" in page
    assert len(nodes_in(page)) < 5
    (link,) = re.findall(r'class="graph-node graph-fold"\s+href="([^"]*)"', page)
    opened = reader.get(run.get_absolute_url() + unescape(link)).content.decode()
    assert len(nodes_in(opened)) >= 50 and "more forks" in opened and "Fold the forks" in opened
    selected = run.checkpoints.filter(branch="fork-1000").latest("row")
    assert "fork-1000" in nodes_in(page_of(reader, run, f"view=graph&at={selected.checkpoint_id}"))
    every = page_of(
        reader, run, f"view=graph&opened=999999999:{run.checkpoints.earliest('row').checkpoint_id}"
    )
    assert "Choose one under Branch" in every


@pytest.mark.parametrize("only", ["branch=fork-7", "only=failed", "only=starred"])
def test_a_branch_the_starred_or_the_failed_are_drawn_alone(reader: Client, db: None, only: str) -> None:
    run = forked_run(40)
    assert "No " in page_of(reader, run, f"view=graph&{only}") or "branch" in only
    run.checkpoints.filter(branch="fork-7").update(trigger="task_failed")
    Annotation.objects.create(
        location_uid=run.location.uid, run_key=run.key, branch="fork-7", is_starred=True
    )
    page = page_of(reader, run, f"view=graph&{only}")
    assert set(nodes_in(page)) == {"main", "fork-7"} and "graph-node graph-fold" not in page


@pytest.mark.parametrize("opened", ["", ":", "x:y", "5:nothing", "-1:a", "0:", "7:", "9" * 30 + ":a"])
def test_invalid_opened_forks_are_ignored(reader: Client, crew_run: Run, opened: str) -> None:
    assert "graph-picture" in page_of(reader, crew_run, f"view=graph&opened={opened}")
