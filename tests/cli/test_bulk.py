"""``manage.py checkpoints bulk``: one document with the jobs of several checkpoints."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.views.forking import CREW, create_location, stored
from viewer.models import Checkpoint, Job, Location, Sweep
from viewer.records.collections import Subject, add_items, collection_named

AGENTS = [{"id": "a", "role": "Agent 1", "llm": "gpt-4o"}]


@pytest.fixture
def location(db: None, tmp_path: Path) -> Location:
    return create_location(tmp_path / "newsroom")


@pytest.fixture
def checkpoints(location: Location) -> list[Checkpoint]:
    other = {**CREW, "checkpoint_kickoff_event_id": "other", "checkpoint_inputs": {"topic": "AI"}}
    return [stored(location, {**CREW, "agents": AGENTS}), stored(location, other)]


@pytest.fixture
def bulk(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command, and gives its exit status and document."""

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        status = 0
        try:
            call_command("checkpoints", "bulk", *arguments, "--json")
        except SystemExit as ended:
            status = int(str(ended.code))
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return status, document

    return run


def test_each_checkpoint_is_forked_with_the_same_edit(bulk: Any, checkpoints: list[Checkpoint]) -> None:
    targets = [one.target for one in checkpoints]
    status, document = bulk("fork", *targets, targets[0], "--input", 'topic="tea"', "--plan")
    assert status == 0 and [one["status"] for one in document["runs"]] == ["planned"] * 2
    assert not Job.objects.exists()
    options = ("--input", 'topic="tea"', "--again-stale", "--limit", "tokens=900")
    status, document = bulk("fork", *targets, *options)
    group = Sweep.objects.get()
    assert (status, document["group"], group.limits) == (0, str(group.pk), {"tokens": 900})
    jobs = list(group.branches)
    assert [one["job"] for one in document["runs"]] == [str(job.pk) for job in jobs]
    assert [job.request["inputs"] for job in jobs] == [{"topic": "tea"}] * 2
    assert [step["action"] for step in jobs[0].plan] == ["again", "again", "runs"]


def test_what_is_refused_says_why_and_the_others_start(bulk: Any, checkpoints: list[Checkpoint]) -> None:
    targets = [one.target for one in checkpoints]
    nowhere = f"{checkpoints[0].location.path}#nowhere"
    status, document = bulk("resume", *targets, nowhere)
    assert status == 1 and [one["status"] for one in document["runs"]] == ["queued", "queued", "refused"]
    assert "has no checkpoint nowhere" in document["runs"][2]["error"]
    status, document = bulk("resume", *targets)
    assert status == 1 and document["error"] == "None of the selected runs can start."
    assert {one["status"] for one in document["runs"]} == {"refused"} and Job.objects.count() == 2


def test_a_checkpoint_with_two_names_starts_once(bulk: Any, checkpoints: list[Checkpoint]) -> None:
    first = checkpoints[0]
    file = Path(first.location.path, first.source_key)
    status, document = bulk("fork", first.target, str(file))
    assert status == 0 and len(document["runs"]) == 1
    assert [job.checkpoint for job in Job.objects.all()] == [first]


def test_too_large_checkpoints_are_refused_with_the_sentence_of_the_page(
    bulk: Any, checkpoints: list[Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viewer.launching.bulk.MAX_BYTES", checkpoints[0].size)
    status, document = bulk("fork", *(one.target for one in checkpoints))
    assert status == 1 and "can start at once." in document["error"] and not document["runs"]
    assert not Job.objects.exists()


def test_a_model_is_refused_where_there_is_no_such_agent(bulk: Any, checkpoints: list[Checkpoint]) -> None:
    status, document = bulk("fork", *(one.target for one in checkpoints), "--model", "Agent 1=o3", "--plan")
    assert status == 1 and [one["status"] for one in document["runs"]] == ["planned", "refused"]
    assert "Agent 1" in document["runs"][1]["error"]


def test_a_collection_is_forked_and_its_scores_are_in_the_document(
    bulk: Any, checkpoints: list[Checkpoint]
) -> None:
    collection = collection_named("teas", None)
    add_items(collection, [Subject(one) for one in checkpoints], None)
    options = ("--collection", "teas", "--score", "judge:right", "--input", 'topic="tea"', "--again-stale")
    _status, planned = bulk("fork", *options, "--plan")
    assert len(planned["runs"]) == len(checkpoints) and not Job.objects.exists()
    _status, started = bulk("fork", *options)
    assert {(run["status"], run["score"]) for run in started["runs"]} == {("queued", None)}
    assert started["mean_difference"] is None
    sweep = Sweep.objects.get()
    assert sweep.collection == collection and sweep.jobs.filter(kind="score").count() == len(checkpoints)
