"""``manage.py checkpoints sweep``: one document with the group and its jobs."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.views.forking import CREW, create_location, stored
from viewer.models import Checkpoint, Job, Sweep

AGENTS = [{"id": "a", "role": "Agent 1", "llm": "gpt-4o"}, {"id": "b", "role": "Agent 2", "llm": "gpt-4o"}]


@pytest.fixture
def checkpoint(db: None, tmp_path: Path) -> Checkpoint:
    return stored(create_location(tmp_path / "newsroom"), {**CREW, "agents": AGENTS})


@pytest.fixture
def vary(checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command on the checkpoint, and gives its exit status and document."""
    where = f"{checkpoint.location.path}#{checkpoint.checkpoint_id}"

    def run(*arguments: str) -> tuple[int, dict[str, Any]]:
        status = 0
        try:
            call_command("checkpoints", "sweep", where, "--branch", "tone", *arguments, "--json")
        except SystemExit as ended:
            status = int(str(ended.code))
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return status, document

    return run


def test_all_combinations_are_queued_under_one_limit(vary: Any, tmp_path: Path) -> None:
    text = tmp_path / "text.md"
    text.write_text("From a file")
    status, document = vary(
        *("--vary", 'topic=["tea", "milk"]', "--vary-model", "Agent 2=o3,gpt-4.1"),
        *("--vary-output", f"1=@{text}", "--limit", "tokens=900", "--cache-warmup", "parallel"),
    )
    group = Sweep.objects.get()
    assert (status, document["group"], document["name"]) == (0, str(group.pk), "tone")
    assert group.limits == document["limits"] == {"tokens": 900}
    jobs = list(group.jobs.order_by("created_at"))
    assert [branch["job"] for branch in document["branches"]] == [str(job.pk) for job in jobs]
    assert [branch["branch"] for branch in document["branches"]] == [
        "tone/tea.o3",
        "tone/tea.gpt-41",
        "tone/milk.o3",
        "tone/milk.gpt-41",
    ]
    assert jobs[1].request["options"] == {"models": {"Agent 2": "gpt-4.1"}, "accepted": []}
    assert jobs[0].request["options"]["cache_warmup"] == "parallel"
    assert {job.request["outputs"]["task-1"]["text"] for job in jobs} == {"From a file"}
    assert {branch["status"] for branch in document["branches"]} == {"queued"}


def test_a_plan_starts_nothing_and_names_stale_tasks(vary: Any) -> None:
    status, document = vary("--vary", 'topic=["tea"]', "--as-it-is", "1", "--plan")
    assert status == 0 and document["group"] is None and not Job.objects.exists()
    (branch,) = document["branches"]
    assert [step["stale"] for step in branch["plan"]] == [["topic"], ["topic"], []]
    _status, document = vary("--vary", 'topic=["tea"]', "--again-stale", "--plan")
    assert [step["action"] for step in document["branches"][0]["plan"]] == ["again", "again", "runs"]


def test_an_invalid_sweep_is_refused_in_the_document_and_invalid_arguments_are_errors(vary: Any) -> None:
    status, document = vary("--vary", 'year=["soon"]', "--branch", "../up")
    assert status == 1 and "may not begin" in document["error"]
    for wrong in (("--vary", "topic=tea"), ("--vary", 'colour=["red"]'), ("--vary-model", "Agent 9=o3")):
        with pytest.raises(CommandError):
            vary(*wrong)
    assert not Job.objects.exists() and not Sweep.objects.exists()
