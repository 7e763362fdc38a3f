"""The head of a run and of a checkpoint: the same on each view, with one menu each."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from viewer.models import Annotation, Run

MAIN = re.compile(
    r'<div class="run-head">.*?(?=<div class="rows-new|<div class="run-graph|<div id="timeline)', re.S
)
ACTIONS = re.compile(r'<div class="run-actions">.*?</div>\s*</div>', re.S)


def views_of(run: Run) -> dict[str, str]:
    return {
        "List": run.get_absolute_url(),
        "Lineage": f"{run.get_absolute_url()}?view=graph",
        "Timeline": reverse("run-timeline", args=[run.uid]),
    }


def test_all_views_have_the_same_head(runner: Client, crew_run: Run) -> None:
    found = {name: runner.get(url).content.decode() for name, url in views_of(crew_run).items()}
    heads = {name: MAIN.findall(page) for name, page in found.items()}
    assert all(len(head) == 1 for head in heads.values())
    (actions,) = {"".join(ACTIONS.findall(page)[0].split()) for page in found.values()}
    for name in ("run-again", "annotation", "compare", "share", "run-export"):
        address = reverse(name, args=[crew_run.uid] if name not in ("compare", "share") else [])
        assert f'href="{address}' in actions.replace('href="', 'href="')
    for name, (head,) in heads.items():
        (views,) = re.findall(r'<nav class="views".*?</nav>', head, re.S)
        assert re.findall(r">\s*(\w+)\s*</a>", views) == ["List", "Lineage", "Timeline"]
        (current,) = re.findall(r'aria-current="page">\s*(\w+)', views)
        assert current == name


@pytest.mark.parametrize("query", ["branch=exp-a", "at={at}", "branch=exp-a&at={at}&tab=events"])
def test_a_view_keeps_the_branch_and_the_selection(runner: Client, crew_run: Run, query: str) -> None:
    query = query.format(at=crew_run.checkpoints.latest("row").checkpoint_id)
    for name, url in views_of(crew_run).items():
        page = runner.get(f"{url}{'&' if '?' in url else '?'}{query}&from=3&to=0").content.decode()
        (views,) = re.findall(r'<nav class="views".*?</nav>', page, re.S)
        links = re.findall(r'href="([^"]*)"', views.replace("&amp;", "&"))
        assert all(part in link for link in links for part in query.split("&")), name
        assert not any("from=" in link or "to=" in link for link in links)


def test_the_actions_of_a_run_and_of_its_checkpoint_are_in_one_menu_each(
    runner: Client, crew_run: Run
) -> None:
    page = runner.get(crew_run.get_absolute_url()).content.decode()
    # What is picked for a comparison has a bar of its own.
    page = page[page.index('<div class="run">') :]
    outside = re.sub(r'<div class="branch-menu" id="(?:run|checkpoint)-menu".*?</div>', "", page, flags=re.S)
    for action in ("Note", "Compare", "Share", "Export", "Publish", "Try several values"):
        assert not re.search(rf'class="button[^>]*>\s*{action}\b', outside), action
    assert page.count("button-primary") == 1
    for label in ("Compare the run", "Share the run", "Compare the checkpoint", "Share the checkpoint"):
        assert page.count(f"{label}</a>") + page.count(f"{label}\n") == 1


def test_a_reader_finds_only_what_reading_needs(reader: Client, crew_run: Run) -> None:
    page = reader.get(crew_run.get_absolute_url()).content.decode()
    assert "Compare the run" in page and "Copy link" in page
    for hidden in ("Share the", "Name and note", "Run again", "Try several values"):
        assert hidden not in page


def test_the_list_shows_starred_checkpoints_and_heads_of_starred_branches(
    reader: Client, crew_run: Run
) -> None:
    row = crew_run.checkpoints.filter(branch="main").earliest("row")
    head = crew_run.checkpoints.filter(branch="exp-a").latest("row")
    uid = crew_run.location.uid
    address = f"{crew_run.get_absolute_url()}?only=starred"
    assert "No starred branches" in reader.get(address).content.decode()
    Annotation.objects.create(location_uid=uid, checkpoint_id=row.checkpoint_id, is_starred=True)
    Annotation.objects.create(location_uid=uid, run_key=crew_run.key, branch="exp-a", is_starred=True)
    page = reader.get(address).content.decode()
    assert re.findall(r'id="c(\d+)"', page) == [str(head.pk), str(row.pk)]


def test_the_tokens_of_a_run_are_counted_in_words(runner: Client, crew_run: Run) -> None:
    for tokens, text in ((1, "1 token"), (2, "2 tokens")):
        Run.objects.update(tokens=tokens)
        page = runner.get(crew_run.get_absolute_url()).content.decode()
        assert re.search(rf"·\s+{text}\s", page), text
        exported = runner.get(reverse("run-export", args=[crew_run.uid]), {"format": "html"})
        assert re.search(rf"·\s+{text}\s", exported.content.decode()), text
