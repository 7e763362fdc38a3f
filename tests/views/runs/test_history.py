"""How an output or a value of the state changed along the ancestors of a checkpoint, for both engines."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from tests.imported import imported_location
from tests.langgraph.conftest import opened, threads
from tests.langgraph.databases import Database, packed
from viewer.engines import engine_of
from viewer.engines.contents import Section, part_id
from viewer.engines.plan import MISSING
from viewer.models import Checkpoint, Location, Run, StoredCopy
from viewer.presentation.comparison import History, history_of
from viewer.records.bodies import stored_body

__all__ = ["threads"]


def values(checkpoint: Checkpoint) -> dict[str, object]:
    """The value of each part that a page follows, by its id."""
    engine = engine_of(checkpoint.location)
    return {one.id: one.value for one in engine.followed_parts(engine.contents_of(stored_body(checkpoint)))}


def expected(checkpoint: Checkpoint, part: str) -> list[int]:
    """The keys of the ancestors at which a part changed, newest first, found one by one."""
    found: list[int] = []
    row: Checkpoint | None = checkpoint
    while row is not None:
        parent = row.parent
        before = values(parent).get(part, MISSING) if parent else MISSING
        if values(row).get(part, MISSING) != before:
            found.append(row.pk)
        row = parent
    return found


def whole(checkpoint: Checkpoint, part: str, count: int) -> list[int]:
    """The keys of all changes, read in parts of this many checkpoints."""
    found: list[int] = []
    at: Checkpoint | None = checkpoint
    while at is not None:
        history = history_of(at, part, count=count)
        found += [change.checkpoint.pk for change in history.changes]
        assert history.older is None or history.older.pk != at.pk
        at = history.older
    return found


def head_of(run: Run, branch: str) -> Checkpoint:
    return run.checkpoints.select_related("location", "run").filter(branch=branch).latest("row")


def first_output(head: Checkpoint) -> str:
    return next(part for part in values(head) if part.startswith("outputs-"))


@pytest.mark.parametrize("count", [1, 2, 60])
def test_the_history_of_outputs_crosses_the_fork_point(crew_run: Run, count: int) -> None:
    for branch in crew_run.branch_names:
        head = head_of(crew_run, branch)
        for part in values(head):
            assert whole(head, part, count) == expected(head, part) != []


def test_an_edited_output_is_a_change_of_the_fork(crew_run: Run) -> None:
    fork = head_of(crew_run, crew_run.branch_names[-1])
    changes = history_of(fork, first_output(fork)).changes
    edited, made = changes
    assert edited.is_fork and not edited.is_first and edited.checkpoint.branch == fork.branch
    assert made.is_first and made.checkpoint.branch == crew_run.branch_names[0]
    before, after = edited.detail.columns
    assert any(piece.changed for stretch in after.stretches for piece in stretch.pieces)
    assert any(piece.changed for stretch in before.stretches for piece in stretch.pieces)


@pytest.mark.parametrize("count", [1, 3, 60])
def test_the_history_of_channels_is_read_at_the_source(
    threads: Callable[[str], Location], count: int
) -> None:
    location = threads("lg12")
    for run in location.runs.filter(parent=None)[:3]:
        found = opened(location, run.key)
        head = found.checkpoints.select_related("location", "run").latest("row")
        for part in values(head):
            assert whole(head, part, count) == expected(head, part) != []


def test_a_checkpoint_that_cannot_be_read_makes_the_change_inexact(crew_run: Run) -> None:
    head = head_of(crew_run, crew_run.branch_names[0])
    part = first_output(head)
    made = history_of(head, part).changes[-1].checkpoint
    StoredCopy.objects.filter(pk=made.pk).delete()
    Checkpoint.objects.filter(pk=made.pk).update(source_key="gone/x.json")
    history: History = history_of(head, part)
    assert history.unreadable == 1 and history.older is None
    assert [change.is_inexact for change in history.changes] == [True]


def history_page(reader: Client, checkpoint: Checkpoint, **query: str) -> str:
    address = reverse("checkpoint-history", args=[checkpoint.pk])
    answer = reader.get(address, query, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_the_page_of_a_crew_loads_a_history_when_it_is_opened(reader: Client, crew_run: Run) -> None:
    fork = head_of(crew_run, crew_run.branch_names[-1])
    part = first_output(fork)
    page = reader.get(fork.get_absolute_url(), {"tab": "tasks", "at": fork.checkpoint_id})
    assert f"part={part}" in page.content.decode() and "toggle once" in page.content.decode()
    html = history_page(reader, fork, part=part, tab="tasks")
    links = re.findall(r'href="([^"]+)"', html)
    assert len(links) == 2 and all("tab=tasks" in link and "part=" not in link for link in links)
    assert "<ins>" in html and "<del>" in html and "first checkpoint of the fork" in html
    opened_page = reader.get(
        fork.get_absolute_url(), {"tab": "tasks", "part": part, "at": fork.checkpoint_id}
    )
    assert 'hx-trigger="load"' in opened_page.content.decode()


def test_the_page_of_a_thread_shows_the_history_of_a_channel(
    reader: Client, threads: Callable[[str], Location]
) -> None:
    location = threads("lg12")
    run = opened(location, location.runs.filter(parent=None)[0].key)
    head = run.checkpoints.select_related("location", "run").latest("row")
    page = reader.get(head.get_absolute_url(), {"tab": "state"}).content.decode()
    part = next(iter(values(head)))
    assert f"part={part}" in page
    assert "first value" in history_page(reader, head, part=part)
    assert "It never had a value" in history_page(reader, head, part="state-nothing")


def test_older_changes_continue_within_the_run_only(reader: Client, crew_run: Run) -> None:
    head = head_of(crew_run, crew_run.branch_names[-1])
    address = reverse("checkpoint-history", args=[head.pk])
    asked = {"part": first_output(head), "older": "999999"}
    assert reader.get(address, asked, headers={"HX-Request": "true"}).status_code == 404
    answer = reader.get(address, asked)
    assert answer.status_code == 302 and "older" not in answer["Location"]


def test_the_messages_of_a_thread_have_the_history_of_their_channel(
    db: None, reader: Client, tmp_path: Path
) -> None:
    database = Database(tmp_path / "threads.db")
    database.add(0, packed({"messages": [{"role": "user", "content": "Where is my order?"}]}))
    run = opened(imported_location(database.path), "t")
    head = run.checkpoints.select_related("location", "run").get()
    page = reader.get(head.get_absolute_url(), {"tab": "messages", "at": head.checkpoint_id}).content.decode()
    part = part_id(Section.STATE, "messages")
    assert f"part={part}" in page
    assert "Where is my order?" in history_page(reader, head, part=part, tab="messages")
