"""The comparison page."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from tests.clients import reading_client
from tests.views.runs.test_calls import confirmed
from viewer.engines import engine_of
from viewer.engines.contents import Section
from viewer.engines.plan import MISSING
from viewer.models import Job, Location, Run, Sweep
from viewer.presentation.comparison import row_of
from viewer.presentation.comparison_sides import Reference, reference_in, reference_to
from viewer.records.bodies import stored_contents


def page(client: Client, *references: object, **query: str) -> str:
    """The page that compares these, the first as the baseline."""
    a, *b = map(str, references)
    answer = client.get(reverse("compare"), {"a": a, "b": b, **query})
    assert answer.status_code == 200
    return str(answer.content.decode())


def ends(run: Run) -> list[Reference]:
    """The newest checkpoint of each branch of a run."""
    heads = [run.checkpoints.filter(branch=name).latest("row") for name in run.branch_names]
    return [reference_to(head) for head in heads]


def test_two_branches_are_compared_from_their_common_ancestor(reader: Client, crew_run: Run) -> None:
    html = page(reader, *ends(crew_run))
    assert "Common ancestor:" in html and "baseline" in html
    assert 'aria-current="true"' in html
    # Inputs are the same: said once, not repeated.
    assert re.search(r"\d+ values are the same on all sides", html)
    assert "<ins>" in html and "<del>" in html


def test_references_of_branches_and_runs_name_their_newest_checkpoint(reader: Client, crew_run: Run) -> None:
    main, fork = (Reference(crew_run.uid, branch=name) for name in crew_run.branch_names)
    by_branch = page(reader, main, fork)
    assert re.findall(r"<td>.*?</td>", by_branch) == re.findall(
        r"<td>.*?</td>", page(reader, *ends(crew_run))
    )
    assert "Their contents are equal" in page(reader, Reference(crew_run.uid), ends(crew_run)[-1])


def test_a_comparison_shows_the_selected_row_in_full(reader: Client, crew_run: Run) -> None:
    html = page(reader, *ends(crew_run))
    key = re.findall(r"row=(outputs-\w+)", html)[0]
    selected = page(reader, *ends(crew_run), row=key)
    assert f'id="row-{key}"' in selected and "compare-detail" in selected
    part = reader.get(
        reverse("compare"),
        {"a": str(ends(crew_run)[0]), "b": str(ends(crew_run)[1]), "row": key},
        headers={"HX-Request": "true", "HX-Target": "comparison"},
    ).content.decode()
    assert part.lstrip().startswith('<div id="comparison"') and "<html" not in part


def test_sides_of_several_runs_name_their_runs(
    reader: Client, imported: Callable[[str], Location], crew_run: Run
) -> None:
    other = imported("1.15.30/flow").runs.top_level()[0]
    both = page(reader, ends(crew_run)[0], Reference(other.uid))
    heads = re.findall(r'class="compare-run">([^<,]*)', both)
    assert heads[:2] == [str(crew_run), str(other)]
    assert 'class="compare-run"' not in page(reader, *ends(crew_run))


def test_everything_shows_equal_rows_as_well(reader: Client, crew_run: Run) -> None:
    html = page(reader, *ends(crew_run), show="all")
    assert "are the same on all sides" not in html and '<span class="muted">same</span>' in html


@pytest.mark.parametrize("text", ["", "x", "00000000-0000-4000-8000-000000000000/x", "a" * 5_000, "%00"])
def test_an_address_without_an_object_shows_an_error(reader: Client, crew_run: Run, text: str) -> None:
    html = page(reader, ends(crew_run)[0], text)
    assert "names no checkpoint" in html
    assert "Choose what to compare" in reader.get(reverse("compare")).content.decode()


def test_one_side_offers_possible_other_sides(reader: Client, crew_run: Run) -> None:
    first, second = ends(crew_run)
    html = page(reader, second)
    assert "Branches of this run" in html and "Ancestors" in html
    (link,) = set(re.findall(rf'href="([^"]*b=[^"]*{first.checkpoint}[^"]*)"', html))
    assert "compare-table" in reader.get(reverse("compare") + link.replace("&amp;", "&")).content.decode()
    assert reverse("compare") in reader.get(crew_run.get_absolute_url()).content.decode()


def test_references_are_read_as_they_are_written() -> None:
    uid = "00000000-0000-4000-8000-000000000000"
    for text in (uid, f"{uid}/a/b@c", f"{uid}@fork/x"):
        assert str(reference_in(text)) == text
    for text in (f"{uid}/", f"{uid}@", f"{uid}x", "x"):
        assert reference_in(text) is None


def test_flows_of_different_versions_are_compared(
    reader: Client, imported: Callable[[str], Location]
) -> None:
    runs = [imported(name).runs.latest("first_at") for name in ("1.15.30/flow", "1.14.7/flow")]
    html = page(reader, *[Reference(run.uid) for run in runs])
    assert "Engine version" in html and "Common ancestor" not in html


def test_the_members_of_a_sweep_are_compared_with_the_branch_that_it_forked(
    reader: Client, crew_run: Run
) -> None:
    main, fork = crew_run.branch_names
    sweep = Sweep.objects.create(name="tone", checkpoint=crew_run.checkpoints.filter(branch=main).first())
    for branch, variation in ((fork, "first output edited"), ("tone/not-yet", "still running")):
        Job.objects.create(
            kind=Job.Kind.FORK,
            location=crew_run.location,
            run=crew_run,
            branch=branch,
            sweep=sweep,
            variation=variation,
        )
    html = reader.get(reverse("compare"), {"sweep": str(sweep.pk)}).content.decode()
    assert "first output edited" in html and "2 branches have not ended" in html
    assert html.count('scope="col"') == 2
    assert f"?sweep={sweep.pk}" in reader.get(sweep.get_absolute_url()).content.decode()


def test_sides_sort_by_a_score_after_the_baseline(reader: Client, crew_run: Run) -> None:
    rows = list(crew_run.checkpoints.order_by("row")[:4])
    for row, score in zip(rows, ("9", "1", "3", "2"), strict=True):
        Job.objects.create(
            kind=Job.Kind.SCORE,
            location=crew_run.location,
            checkpoint=row,
            request={"function": "judge:length"},
            result=score,
            status=Job.Status.SUCCEEDED,
        )

    def scores(**query: str) -> list[str]:
        html = page(reader, *map(reference_to, rows), **query)
        found = re.search(r"judge:length</a>(.*?)</tr>", html, re.DOTALL)
        assert found
        return re.findall(r"<td>.*?</span>\s*(?:<ins>)?(\d)", found[1], re.DOTALL)

    assert scores() == ["9", "1", "3", "2"]
    assert scores(sort="-judge:length") == ["9", "3", "2", "1"]
    assert scores(sort="judge:length") == ["9", "1", "2", "3"]
    html = page(reader, *map(reference_to, rows), sort="-judge:length")
    assert "Lowest first" in html and "9, best" in html


def test_another_side_can_be_added(reader: Client, crew_run: Run) -> None:
    html = page(reader, *ends(crew_run), add="1")
    assert "Add to the comparison:" in html
    (query, *_more) = re.findall(r'<li><a href="(\?[^"]*)"', html)
    html = reader.get(reverse("compare") + query.replace("&amp;", "&")).content.decode()
    assert html.count('scope="col"') == 3 and "Remove" in html


def test_tokens_and_cost_are_those_of_each_side(reader: Client, crew_run: Run) -> None:
    html = page(reader, *ends(crew_run), show="all")
    assert "Tokens so far" in html and "Cost so far" in html


def test_a_side_without_a_score_has_none(reader: Client, crew_run: Run) -> None:
    first, second = crew_run.checkpoints.order_by("row")[:2]
    Job.objects.create(
        kind=Job.Kind.SCORE,
        location=crew_run.location,
        checkpoint=second,
        request={"function": "judge:length"},
        result="3",
        status=Job.Status.SUCCEEDED,
    )
    found = re.search(
        r"judge:length</a>(.*?)</tr>", page(reader, reference_to(first), reference_to(second)), re.DOTALL
    )
    assert found and "none" in found[1] and "empty" not in found[1]


def test_a_search_finds_a_side_in_another_location(
    reader: Client, crew_run: Run, imported: Callable[[str], Location]
) -> None:
    other = imported("1.15.30/flow").runs.filter(parent=None).first()
    assert other
    page = reader.get(reverse("compare"), {"find": "1.15.30/flow"}).content.decode()
    assert f"a={other.uid}" in page
    page = reader.get(reverse("compare"), {"a": str(crew_run.uid), "find": other.name}).content.decode()
    found = re.findall(r'href="\?([^"]+)"', page[page.index("compare-candidates") :])
    assert any(f"b={other.uid}" in one and "find" not in one for one in found)
    head = other.checkpoints.order_by("row").last()
    assert head
    start = head.checkpoint_id[:20]
    page = reader.get(reverse("compare"), {"a": str(crew_run.uid), "find": start}).content.decode()
    assert head.checkpoint_id in unquote(page)
    page = reader.get(reverse("compare"), {"find": "nothing-like-this %_"}).content.decode()
    assert "Nothing has this name" in page


def test_different_values_that_are_summarised_alike_do_not_look_equal() -> None:
    key = (str(Section.OUTPUTS), "a", "")
    texts = [f"{word} {'x ' * 60}" for word in ("first", "other", "first")]
    row = row_of(key, "a", texts)
    assert [cell.text for cell in row.cells] == ["61 words", "61 words, but different", "61 words"]
    assert [cell.is_same for cell in row.cells] == [True, False, True]
    assert not row_of(key, "a", [MISSING, MISSING]).differs
    assert not row_of(key, "a", [{"b": [1, None]}, {"b": [1, None]}]).differs


def test_a_value_of_one_side_opens_the_fork_form_of_the_other(
    runner: Client, crew_run: Run, tmp_path: Path
) -> None:
    reader = reading_client()
    confirmed(crew_run.location, tmp_path)
    html = page(runner, *ends(crew_run))
    links = [unescape(one) for one in re.findall(r'href="(/checkpoints/\d+/fork/[^"]+)"', html)]
    main, fork = (crew_run.checkpoints.filter(branch=name).latest("row") for name in crew_run.branch_names)
    assert [link.partition("?")[0] for link in links] == [
        reverse("fork", args=[fork.pk]),
        reverse("fork", args=[main.pk]),
    ]
    assert "/fork/?" not in page(reader, *ends(crew_run))
    for link, source in zip(links, (main, fork), strict=True):
        query = QueryDict(link.partition("?")[2])
        unit = query["value"].rpartition(":")[2]
        contents = stored_contents(source)
        outputs = engine_of(contents).editable(contents).outputs
        output = next(one for one in outputs if one.unit == unit).text
        shown = unescape(runner.get(link).content.decode())
        (field,) = re.findall(rf'<textarea[^>]*name="output:{query["edit"][8:]}"[^>]*>([^<]*)<', shown)
        assert field.strip() == output.strip() and not Job.objects.exists()
    # Another part, a checkpoint that does not exist, and no value.
    for value in ("", "x", f"{main.pk}:inputs:x", f"999999:outputs:{unit}", f"{9**40}:{unit}"):
        answer = runner.get(links[0].partition("?")[0], {"edit": query["edit"], "value": value})
        assert answer.status_code == 200 and "1 edited" not in answer.content.decode()
