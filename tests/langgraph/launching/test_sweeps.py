"""Sweeps of LangGraph's threads: over channels, answers and the values that the code reads."""

import json
from pathlib import Path

from django.test import Client
from django.urls import reverse

from tests.engine_runs.graphs import digests
from tests.langgraph.launching.test_running import address, ran, rows, threads, worker
from tests.terminal import Terminal
from tests.waiting import wait_until
from viewer.engines import engine_of
from viewer.models import Job, Location, PreflightCheck, Project, Sweep
from viewer.records.bodies import stored_contents

__all__ = ["threads", "worker"]


def test_a_sweep_over_a_channel_runs_a_fork_for_each_value(threads: Location, terminal: Terminal) -> None:
    before, start = digests(Path(threads.path).parent), rows(threads, "fan")[2]
    vary = ("--vary", 'notes=[["one"], ["two"]]', "--branch", "notes", "--accept-effects")
    done = terminal.document("sweep", address(start), "--entrypoint", "graphs:fan", *vary, "--wait")
    results = [json.loads(one["result"])["notes"][0] for one in done["branches"]]
    # The typed value is the channel's, although a reducer adds to it.
    assert results == ["one", "two"], done
    assert ran(threads) == ["end", "end", "left", "left", "right", "right"]
    assert digests(Path(threads.path).parent) == before
    heads = {row.branch for row in rows(threads, "fan") if row.is_scratch}
    assert heads == {one["branch"] for one in done["branches"]}


def test_a_sweep_over_answers_leaves_the_question_open(threads: Location, terminal: Terminal) -> None:
    start = rows(threads, "approval")[-1]
    vary = ("--vary-answer", '["yes", "no"]', "--branch", "say", "--accept-effects")
    done = terminal.document("sweep", address(start), "--entrypoint", "graphs:approval", *vary, "--wait")
    assert [one["branch"] for one in done["branches"]] == ["say/yes", "say/no"]
    assert ran(threads) == ["approve", "approve", "drop", "publish"]
    start.refresh_from_db()
    assert start.trigger == "loop_waiting" and start.children.count() == 2


def test_a_sweep_over_what_the_code_reads_gives_each_run_its_value(
    threads: Location, terminal: Terminal
) -> None:
    place = ("--entrypoint", "graphs:configured", "--thread", "tone", "--input", 'topic="x"')
    terminal.document("run", threads.path, *place, "--wait")
    start = rows(threads, "tone")[1]
    vary = ("--vary-configurable", 'tone=["plain", "warm"]', "--context", 'tone="calm"', "--accept-effects")
    done = terminal.document("sweep", address(start), "--entrypoint", "graphs:configured", *vary, "--wait")
    notes = [json.loads(one["result"])["notes"][:2] for one in done["branches"]]
    assert notes == [["configurable plain", "context calm"], ["configurable warm", "context calm"]]


def test_the_page_of_a_sweep_has_the_channels_answers_and_nodes(
    worker: None, threads: Location, runner: Client
) -> None:
    Project.objects.update(entry_points=["graphs:approval"])
    start = rows(threads, "approval")[-1]
    address = reverse("new-sweep", args=[start.pk])
    assert address in runner.get(start.get_absolute_url()).content.decode()
    page = runner.get(address).content.decode()
    contents = stored_contents(start)
    (question,) = engine_of(contents).editable(contents).questions
    field = f"vary-answer:{question.id}"
    assert (
        "approve: Publish cats?" in page and f'name="{field}"' in page and 'name="vary-state:topic"' in page
    )
    sent = {"branch": "say", "entry_point": "graphs:approval", field: "yes\nno", "accepted": ""}
    runner.post(reverse("new-sweep-plan", args=[start.pk]), {**sent, "check": "1"})
    wait_until(lambda: PreflightCheck.objects.ended().exists())
    key = {"key": "3e0c6f34-9d31-4a55-9f0f-6a1f0b6c1a11"}
    for _twice in range(2):
        response = runner.post(address, {**sent, **key})
        assert response.status_code == 302, response.content.decode()
    assert Sweep.objects.count() == 1
    wait_until(lambda: all(job.has_ended for job in Job.objects.all()))
    assert ran(threads) == ["approve", "approve", "drop", "publish"]
    assert "say/yes" in runner.get(response["Location"]).content.decode()


def test_a_channel_and_an_answer_cannot_both_vary(threads: Location, terminal: Terminal) -> None:
    start = rows(threads, "approval")[-1]
    vary = ("--vary-answer", '["yes"]', "--vary", 'topic=["dogs"]', "--entrypoint", "graphs:approval")
    terminal.refused("sweep", address(start), *vary)
    assert not Job.objects.exists()
