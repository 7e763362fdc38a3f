"""LangGraph's threads are forked, answered, resumed and run through the worker, as people do it."""

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from tests.engine_runs.graphs import NODES, PROJECT, STORE, digests
from tests.engine_runs.prewarmed_jobs import PrewarmedJobs
from tests.environments import environment_with
from tests.jobs.conftest import ROOT
from tests.terminal import Terminal
from tests.waiting import wait_until
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_run
from viewer.models import Checkpoint, Job, Location, PreflightCheck, Project, Question, Run
from viewer.records.bodies import stored_contents


@pytest.fixture
def threads(
    recorded_threads: Path,
    graph_python: Path,
    prewarmed_jobs: PrewarmedJobs,
    transactional_db: None,
    settings: Settings,
    tmp_path: Path,
) -> Location:
    """A location with threads that LangGraph wrote, and their confirmed project."""
    folder = Path(shutil.copytree(recorded_threads, tmp_path / "threads"))
    environment = tmp_path / "project.env"
    environment.write_text(f"NODES_FILE={folder / NODES}\n")
    location = open_location(folder / STORE)
    location.project = Project.objects.create(
        folder=str(PROJECT),
        interpreter=str(graph_python),
        environment_file=str(environment),
        entry_points=["graphs:fan", "graphs:approval"],
        confirmed_at=timezone.now(),
    )
    location.save()
    settings.PREWARM = True
    prewarmed_jobs.serve(location.project, settings.DATA_DIR)
    import_location(location)
    return location


def rows(location: Location, thread: str) -> list[Checkpoint]:
    """The checkpoints of a thread, oldest first."""
    run = Run.objects.select_related("location").get(location=location, key=thread, parent=None)
    import_run(run)
    return list(run.checkpoints.select_related("location", "run", "parent").order_by("checkpoint_id"))


def ran(location: Location) -> list[str]:
    """The nodes that have run."""
    path = Path(location.path).with_name(NODES)
    return sorted(path.read_text().split()) if path.exists() else []


def address(row: Checkpoint) -> str:
    return f"{row.location.path}#{row.run.key}/{row.checkpoint_id}"


@pytest.fixture
def worker(threads: Location) -> Iterator[None]:
    environment = environment_with()
    process = subprocess.Popen([sys.executable, "manage.py", "worker"], cwd=ROOT, env=environment)
    yield
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_fork_appears_in_the_lineage_and_leaves_the_store_as_it_was(
    threads: Location, terminal: Terminal
) -> None:
    before, start = digests(Path(threads.path).parent), rows(threads, "fan")[2]
    arguments = ("--state", json.dumps({"topic": "dogs"}), "--branch", "dogs")
    done = terminal.succeeded("fork", address(start), "--entrypoint", "graphs:fan", *arguments)
    assert ran(threads) == ["end", "left", "right"]
    assert digests(Path(threads.path).parent) == before
    forked = [row for row in rows(threads, "fan") if row.is_scratch]
    assert [row.trigger.partition("_")[0] for row in forked] == ["update", "loop", "loop"]
    assert forked[0].parent == start and {row.branch for row in forked} == {"dogs"}
    assert [one["id"] for one in done["checkpoints"]] == [row.checkpoint_id for row in forked]
    assert stored_contents(forked[-1]).channels["notes"][-1] == "end on dogs"  # type: ignore[attr-defined]
    assert all(row.state == Checkpoint.State.PRESENT for row in rows(threads, "fan"))


def test_threads_whose_ids_have_separators_are_forked_and_resumed(
    threads: Location, terminal: Terminal
) -> None:
    with closing(sqlite3.connect(threads.path)) as store, store:
        for table in ("checkpoints", "writes"):
            store.execute(f"UPDATE {table} SET thread_id = 'a/b#c%23' || thread_id")
    import_location(threads)
    start, failed = rows(threads, "a/b#c%23fan")[2], rows(threads, "a/b#c%23failed")[-1]
    terminal.succeeded("fork", start.target, "--entrypoint", "graphs:fan", "--branch", "dogs")
    draft = next(row for row in rows(threads, "a/b#c%23fan") if row.is_scratch)
    terminal.succeeded("fork", draft.target, "--entrypoint", "graphs:fan", "--branch", "mice")
    assert {row.branch for row in rows(threads, "a/b#c%23fan") if row.is_scratch} == {"dogs", "mice"}
    terminal.succeeded("resume", failed.target, "--entrypoint", "graphs:fan")


def test_a_fork_of_a_fork_continues_the_scratch_store(threads: Location, terminal: Terminal) -> None:
    first = ("--entrypoint", "graphs:fan", "--branch", "dogs", "--wait")
    terminal.document("fork", address(rows(threads, "fan")[2]), *first)
    scratch = next(row for row in rows(threads, "fan") if row.is_scratch)
    second = ("--entrypoint", "graphs:fan", "--branch", "mice", "--state", '{"topic": "mice"}')
    terminal.succeeded("fork", address(scratch), *second)
    assert {row.branch for row in rows(threads, "fan") if row.is_scratch} == {"dogs", "mice"}


def test_a_fork_after_which_nothing_runs_is_refused_before_a_job_is_stored(
    threads: Location, terminal: Terminal
) -> None:
    start, ended = rows(threads, "fan")[2], rows(threads, "fan")[-1]
    edited = ("--entrypoint", "graphs:fan", "--state", '{"topic": "dogs"}')
    for row, node in ((start, ("--as-node", "end")), (ended, ())):
        refused = terminal.refused("fork", address(row), *edited, *node, "--wait")
        assert refused["status"] == "refused" and "no node follows" in refused["error"]
    assert not Job.objects.exists() and ran(threads) == []
    planned = terminal.text("fork", address(ended), *edited, "--plan")
    assert "The graph decides which nodes run next." in planned
    found = terminal.document("fork", address(start), *edited, "--ask-next")["next"]
    assert {one["node"]: one["next"] for one in found}["end"] == []


def test_two_answers_to_one_question_are_two_branches_of_the_lineage(
    worker: None, threads: Location, terminal: Terminal
) -> None:
    start = rows(threads, "approval")[-1]
    for answer in ("yes", "no"):
        chosen = ("--entrypoint", "graphs:approval", "--branch", f"say-{answer}", "--answer", answer)
        forked = terminal.document("fork", address(start), *chosen)
        job = Job.objects.get(pk=forked["job"])
        wait_until(lambda job=job: Job.objects.get(pk=job.pk).has_ended)  # type: ignore[misc]
    assert ran(threads) == ["approve", "approve", "drop", "publish"]
    children = {row.branch for row in rows(threads, "approval") if row.parent == start}
    assert children == {"say-yes", "say-no"}


def test_an_interrupt_is_a_question_of_the_inbox(worker: None, threads: Location, runner: Client) -> None:
    start = rows(threads, "approval")[-1]
    page = runner.get(reverse("fork", args=[start.pk])).content.decode()
    assert 'name="state:topic"' in page and 'name="as_node"' in page and "a draft in Forkline, branch" in page
    # What LangGraph does not offer.
    assert 'name="checkpoint_events"' not in page
    sent = {"branch": "asked", "entry_point": "graphs:approval", "key": str(uuid.uuid4())}
    runner.post(reverse("fork-plan", args=[start.pk]), {**sent, "check": "1"})
    wait_until(lambda: PreflightCheck.objects.ended().exists())
    response = runner.post(reverse("fork", args=[start.pk]), sent)
    assert response.status_code == 302, response.content.decode()
    wait_until(lambda: Question.objects.exists())
    question = Question.objects.get()
    assert (question.kind, question.prompt, question.choices) == ("interrupt", "Publish cats?", ["yes", "no"])
    answer = reverse("question-answer", args=[question.job_id, question.number])
    runner.post(answer, {"choice": "no"})
    wait_until(lambda: Job.objects.get().has_ended)
    assert ran(threads) == ["approve", "drop"]


def test_resuming_continues_the_thread_itself(threads: Location, terminal: Terminal) -> None:
    head = rows(threads, "failed")[-1]
    done = terminal.succeeded("resume", address(head), "--entrypoint", "graphs:fan")
    assert [(step["unit"], step["action"]) for step in done["plan"]] == [("left", "kept"), ("right", "runs")]
    assert ran(threads) == ["end", "right"]
    assert not any(row.is_scratch for row in rows(threads, "failed"))


def test_only_the_last_checkpoint_offers_to_be_resumed(
    threads: Location, runner: Client, terminal: Terminal
) -> None:
    first, *_others, last = rows(threads, "failed")
    for row, offered in ((first, False), (last, True)):
        page = runner.get(row.get_absolute_url()).content.decode()
        assert (reverse("resume", args=[row.pk]) in page) is offered
        assert reverse("fork", args=[row.pk]) in page
    refused = terminal.refused("resume", address(first), "--entrypoint", "graphs:fan")
    assert refused["status"] == "refused" and not Job.objects.exists()


def test_a_new_turn_runs_on_the_thread(threads: Location, terminal: Terminal) -> None:
    place = ("--entrypoint", "graphs:fan", "--thread", "fan")
    terminal.succeeded("run", threads.path, *place, "--input", 'topic="mice"')
    assert ran(threads) == ["end", "left", "right", "start"]
    assert rows(threads, "fan")[-1].turn == 2


def test_run_again_is_filled_with_the_first_input(threads: Location, runner: Client) -> None:
    run = rows(threads, "fan")[0].run
    Project.objects.update(entry_points=["graphs:fan"])
    page = runner.get(reverse("run-again", args=[run.uid]), follow=True).content.decode()
    assert 'value="cats"' in page or ">\ncats<" in page


def test_the_graph_tab_asks_the_projects_code(threads: Location, runner: Client) -> None:
    row = rows(threads, "nested")[-1]
    Project.objects.update(entry_points=["graphs:nested"])
    sent = runner.post(reverse("checkpoint-graph", args=[row.pk]), {"tab": "graph"})
    assert "Nothing runs" in runner.get(sent["Location"]).content.decode()
    wait_until(lambda: PreflightCheck.objects.ended().exists())
    page = runner.get(sent["Location"]).content.decode()
    assert "As <code>graphs:nested</code> compiles" in page
    assert 'class="unit-frame is-waiting"' in page and ">publish<" in page
    assert ran(threads) == []
