"""``manage.py checkpoints run``: its arguments and refusals."""

import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError

from tests.engine_runs.runs import PRESS
from tests.terminal import Terminal
from viewer.models import Job, Location

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
CREW = ("--entrypoint", "press_crew:make_crew")
FLOW = ("--entrypoint", "press_flow:PressFlow")
PROJECT = ("--project", str(PRESS), "--python", sys.executable)
AGENT = ("--entrypoint", "press_agent:interviewer")


def run(terminal: Terminal, location: Path, *arguments: str) -> Any:
    """Return the document of a queued run."""
    return terminal.document("run", location, *PROJECT, *arguments)


def test_a_run_is_queued_with_typed_inputs_at_a_new_location(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "runs/press.db"
    inputs = ("--input", 'topic="bees"', "--input", "year=1999", "--input", 'tags=["a", 1]')
    chosen = ("--events", "task_started, task_completed", "--max-checkpoints", "3")
    models = ("--model", "Writer=o3", "--cache-warmup", "parallel")
    printed = run(terminal, path, *CREW, *inputs, *chosen, *models)
    job = Job.objects.get()
    assert (printed["job"], printed["status"], printed["branch"]) == (str(job.pk), "queued", "main")
    assert (job.kind, job.location.path, job.location.store_kind) == ("run", str(path.resolve()), "sqlite")
    assert job.location.project == job.project
    assert job.request["inputs"] == {"topic": "bees", "year": 1999, "tags": ["a", 1]}
    events = ["task_started", "task_completed"]
    assert job.request["options"] == {
        "checkpoints": {"events": events, "max_checkpoints": 3},
        "models": {"Writer": "o3"},
        "cache_warmup": "parallel",
        "accepted": [],
    }
    assert (job.request["entity"], job.request["entry_point"]) == ("crew", "press_crew:make_crew")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("README.md", "README.md"),
        ("AI in 2026", "AI in 2026"),
        ("1e", "1e"),
        ("", ""),
        ("NaN", "NaN"),
        ("2026", 2026),
        ("true", True),
        ('"2026"', "2026"),
    ],
)
def test_an_input_that_is_not_json_is_a_text(
    terminal: Terminal, tmp_path: Path, written: str, value: object
) -> None:
    run(terminal, tmp_path / "new", *CREW, "--input", f"topic={written}")

    assert Job.objects.get().request["inputs"] == {"topic": value}


def test_the_inputs_of_a_flow_and_an_agent_are_its_state_and_its_message(
    terminal: Terminal, tmp_path: Path
) -> None:
    run(terminal, tmp_path / "flow", *FLOW, "--state", '{"topic": "bees", "year": 1}', "--input", "year=2")
    run(terminal, tmp_path / "agent", *AGENT, "--input", 'messages="Ask"')
    requests = [(job.request["entity"], job.request["inputs"]) for job in Job.objects.order_by("created_at")]
    assert requests == [("flow", {"topic": "bees", "year": 2}), ("agent", {"messages": "Ask"})]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "Choose what to run with --entrypoint"),
        (("--entrypoint", "press_crew:Fact"), "--kind"),
        ((*CREW, "--state", "{}"), "Only these have a state: flow"),
        ((*AGENT, "--input", "topic=1"), "has one input"),
        ((*CREW, "--input", "year=[nineteen"), "This is not valid JSON"),
        ((*FLOW, "--model", "o3"), "for a crew only"),
        ((*CREW, "--max-checkpoints", "0"), "--max-checkpoints: This must be"),
        ((*CREW, "--events", ","), "--events needs a name"),
    ],
)
def test_invalid_arguments_start_and_create_nothing(
    terminal: Terminal, tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    with pytest.raises(CommandError, match=text):
        run(terminal, tmp_path / "new", *arguments)
    assert not Job.objects.exists()
    assert not Location.objects.exists()
    assert not (tmp_path / "new").exists()


def test_an_invalid_location_is_refused_in_the_document(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a store")
    printed = terminal.refused("run", tmp_path / "notes.txt", *PROJECT, *CREW)
    assert (printed["job"], printed["status"]) == (None, "refused")
    assert (tmp_path / "notes.txt").read_text() == "not a store"
    assert not Job.objects.exists()
