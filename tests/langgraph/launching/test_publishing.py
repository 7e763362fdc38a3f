"""Forks of LangGraph's threads are published in the browser and the terminal."""

import re
import uuid
from pathlib import Path
from typing import Any

from django.test import Client
from django.urls import reverse

from tests.engine_runs.graphs import digests
from tests.langgraph.launching.test_running import address, rows, threads
from tests.terminal import Terminal
from viewer.cli.running import run_here
from viewer.engines import engine_named
from viewer.engines.langgraph.contents import Contents
from viewer.models import Checkpoint, Job, Location, Project, Run

__all__ = ["threads"]


def forked(location: Location, terminal: Terminal, *options: str) -> Any:
    """What the terminal prints of a fork of the third checkpoint."""
    chosen = ("--entrypoint", "graphs:fan", "--branch", "dogs", "--state", '{"topic": "dogs"}')
    return terminal.succeeded("fork", address(rows(location, "fan")[2]), *chosen, *options)


def scratch(location: Location) -> list[Checkpoint]:
    return [row for row in rows(location, "fan") if row.is_scratch]


def test_a_fork_becomes_a_new_thread_with_its_own_lineage(threads: Location, terminal: Terminal) -> None:
    made = forked(threads, terminal)
    before = digests(Path(threads.path).parent)
    shown = terminal.document("publish", address(scratch(threads)[-1]), "--plan")
    assert (shown["status"], shown["run"], shown["checkpoints"]) == ("planned", made["job"], 3)
    assert digests(Path(threads.path).parent) == before
    Project.objects.update(confirmed_at=None)
    assert terminal.document("publish", address(scratch(threads)[-1]), "--plan") == shown
    assert not Project.objects.get().is_confirmed, "Only a start confirms a project."
    terminal.succeeded("publish", address(scratch(threads)[-1]))
    new = rows(threads, made["job"])
    # The one that was forked, and its own.
    assert [row.checkpoint_id for row in new[1:]] == [row.checkpoint_id for row in scratch(threads)]
    assert new[0].parent is None and [row.parent for row in new[1:]] == new[:-1]
    assert len(rows(threads, "fan")) == 8 and not Run.objects.get(key=made["job"]).lineage_faults
    terminal.succeeded("publish", address(scratch(threads)[-1]))
    assert len(rows(threads, made["job"])) == 4


def test_a_fork_that_becomes_the_head_keeps_its_branch_and_its_rows(
    threads: Location, terminal: Terminal
) -> None:
    forked(threads, terminal)
    before = {row.pk: row.checkpoint_id for row in scratch(threads)}
    head = address(scratch(threads)[-1])
    terminal.succeeded("publish", head, "--into", "thread")
    after = rows(threads, "fan")
    assert len(after) == 8 and not scratch(threads)
    assert {row.pk: row.checkpoint_id for row in after if row.branch == "dogs"} == before
    assert after[-1].is_head_of_run and after[-1].branch == "dogs"


def test_a_fork_is_published_at_its_end(threads: Location, terminal: Terminal) -> None:
    made = forked(threads, terminal, "--into", "new-thread")
    assert len(rows(threads, made["job"])) == 4 and len(scratch(threads)) == 3


def test_the_page_shows_what_is_written_and_writes_it_once(
    threads: Location, terminal: Terminal, runner: Client
) -> None:
    made = forked(threads, terminal)
    row = scratch(threads)[-1]
    link = reverse("publish", args=[row.pk])
    assert link in runner.get(row.get_absolute_url()).content.decode()
    page = runner.get(link).content.decode()
    assert 'name="thread" value="dogs"' in page and "Other threads do not change" in page
    assert "moves the head" in runner.get(link, {"into": "thread"}).content.decode()
    sent = {"key": str(uuid.uuid4()), "into": "new-thread"}
    assert runner.post(link, sent).status_code == 422 and Job.objects.count() == 1
    for _twice in range(2):
        assert runner.post(link, sent | {"agreed": "1"}).status_code == 302
    job = Job.objects.get(kind="publish")
    run_here(job)
    assert job.status == "succeeded", job.error
    assert f"Published as {made['job']}" in runner.get(row.get_absolute_url()).content.decode()


def test_a_fork_is_published_under_a_name_and_its_job_opens_the_thread(
    threads: Location, terminal: Terminal, runner: Client
) -> None:
    forked(threads, terminal)
    link = reverse("publish", args=[scratch(threads)[-1].pk])
    sent = {"into": "new-thread", "agreed": "1"}
    taken = runner.post(link, sent | {"key": str(uuid.uuid4()), "thread": "fan"}).content.decode()
    assert "The location has fan already." in taken
    hidden = runner.post(link, sent | {"key": str(uuid.uuid4()), "thread": "a\u202eb"}).content.decode()
    assert "can be printed" in hidden and not Job.objects.filter(kind="publish").exists()
    runner.post(link, sent | {"key": str(uuid.uuid4()), "thread": " dogs, 2nd "})
    job = Job.objects.get(kind="publish")
    run_here(job)
    run = threads.runs.get(key="dogs, 2nd")
    page = runner.get(job.get_absolute_url()).content.decode()
    assert "4 checkpoints written to dogs, 2nd." in page and run.get_absolute_url() in page
    assert len(rows(threads, "dogs, 2nd")) == 4
    assert run.inputs == [["topic", "dogs"]]
    home = runner.get("/").content.decode()
    assert re.search(r"dogs, 2nd.*?topic.*?dogs", home, re.S), home
    assert 'value="dogs"' in runner.get(link).content.decode()


def test_a_thread_that_has_continued_is_refused_before_anything_is_written(
    threads: Location, terminal: Terminal
) -> None:
    forked(threads, terminal)
    row = scratch(threads)[-1]
    turn = ("--entrypoint", "graphs:fan", "--thread", "fan", "--input", 'topic="mice"', "--wait")
    terminal.document("run", threads.path, *turn)
    rows(threads, "fan")
    assert "has continued" in terminal.refused("publish", address(row), "--into", "thread")["error"]


def said(*texts: str) -> Contents:
    """A checkpoint of a conversation in which the user wrote these texts."""
    messages = [{"role": "user", "content": text} for text in texts]
    return Contents({"checkpoint": {"channel_values": {"messages": messages, "topic": texts[-1]}}})


def test_a_published_fork_is_listed_with_the_message_that_was_edited() -> None:
    before, engine = said("Hello", "Where is it?"), engine_named("langgraph")
    after = said("Hello", "Where is order 7?", "Thanks")
    assert engine.edited_inputs(before, after, ["messages"]) == {"": "Where is order 7?"}
    assert engine.edited_inputs(before, after, ["topic"]) == {"topic": "Thanks"}
    assert engine.edited_inputs(before, before, ["messages", "gone"]) == {}
