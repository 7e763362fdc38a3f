"""``manage.py checkpoints fork|resume`` without a server, a worker or an existing database."""

import json
from pathlib import Path

import pytest
from django.core.management import execute_from_command_line

from tests.engine_runs.checkpoints import after_method, after_task, crew_after, is_chain, rows, written
from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import KEY, marks
from tests.runners.runs.conftest import Done, Terminal, document


@pytest.fixture
def in_process(project: list[str], transactional_db: None, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Run the command in this process, which is faster."""

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            execute_from_command_line(["manage.py", "checkpoints", *arguments, *project])
        out, error = capsys.readouterr()
        return Done(list(arguments), int(ended.value.code or 0), out, error)

    return run


def test_a_fork_runs_to_its_end_and_prints_one_document(
    terminal: Terminal, model: TestModel, stores: Path, tmp_path: Path
) -> None:
    location, start, before = crew_after(stores, 2)
    (tmp_path / "fact.json").write_text('{"text": "my fact", "score": 7}')
    done = terminal(
        *("fork", f"{location}#{start.id}", "--branch", "what/if", "--input", "year=1999"),
        *("--output", f"2=@{tmp_path / 'fact.json'}", "--output", f"{start.tasks[0]['id']}=my notes"),
        *("--entrypoint", "press_crew:make_crew", "--wait", "--json"),
    )
    assert done.returncode == 0, done.stderr
    printed = document(done)
    assert (printed["status"], printed["branch"], printed["error"]) == ("succeeded", "what/if", "")
    assert [step["action"] for step in printed["plan"]] == ["edited", "edited", "runs", "runs"]
    assert "my notes" in model.prompts()[0]
    assert "my fact" in model.prompts()[0]
    assert "for 1999" in model.prompts()[0]
    new = written(location, before)
    assert [one["id"] for one in printed["checkpoints"]] == [saved.id for saved in new]
    assert [one["parent_id"] for one in printed["checkpoints"]] == [
        start.id,
        *[saved.id for saved in new[:-1]],
    ]
    assert {one["branch"] for one in printed["checkpoints"]} == {"what/if"}
    assert printed["result"] == new[-1].tasks[3]["output"]["raw"]
    assert new[-1].root["checkpoint_inputs"]["year"] == 1999


def test_a_file_is_resumed_with_plain_output(terminal: Terminal, model: TestModel, stores: Path) -> None:
    location, before = stores / "flow", marks(stores / "flow")
    start = after_method(location, "length")
    done = terminal("resume", start.source, "--entrypoint", "press_flow:PressFlow", "--wait")
    assert done.returncode == 0, done.stderr
    assert "succeeded: main" in done.stdout
    assert is_chain(start.id, written(location, before))


def test_a_failed_run_has_its_own_exit_status_and_the_reason(terminal: Terminal, stores: Path) -> None:
    start = after_method(stores / "flow", "length")
    arguments = ("fork", f"{stores / 'flow'}#{start.id}", "--entrypoint", "press_flow:Nobody", "--wait")
    done = terminal(*arguments, "--json")
    assert done.returncode == 1
    printed = document(done)
    assert printed["status"] == "failed"
    assert "press_flow has no Nobody" in printed["error"]
    assert printed["checkpoints"] == []


def test_a_new_run_creates_its_location_and_lists_its_checkpoints(
    terminal: Terminal, model: TestModel, tmp_path: Path
) -> None:
    path = tmp_path / "runs" / "new.db"
    done = terminal(
        *("run", str(path), "--entrypoint", "press_crew:make_crew", "--input", 'topic="bees"'),
        *("--input", "year=1999", "--input", 'tags=["a", 1]'),
        *("--events", "task_started,task_completed", "--max-checkpoints", "2", "--wait", "--json"),
    )
    assert done.returncode == 0, done.stderr
    printed = document(done)
    assert (printed["status"], printed["branch"], printed["plan"]) == ("succeeded", "main", [])
    assert "Collect bees in 1999, ['a', 1]" in model.prompts()[0]
    left = rows(path)
    # Deleted ones were imported before or not at all: every listed one was read.
    assert [one["id"] for one in printed["checkpoints"]][-2:] == [row.id for row in left]
    assert printed["result"] == left[-1].tasks[3]["output"]["raw"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--branch", "main"), "branch 'main' already"),
        (("--branch", "../out"), "may not begin or end with a slash"),
        (("--output", "4=mine"), "Task 4 has not finished"),
        (("--output", "1=mine", "--again", "1"), "Task 1 cannot both run again"),
        (("--state", '{"a": 1}'), "no state"),
    ],
)
def test_impossible_requests_are_refused_in_the_document(
    in_process: Terminal, model: TestModel, stores: Path, arguments: tuple[str, ...], text: str
) -> None:
    before = marks(stores / "crew")
    start = after_task(stores / "crew", 2)
    done = in_process("fork", f"{stores / 'crew'}#{start.id}", *arguments, "--wait", "--json")
    assert done.returncode == 1
    assert (document(done)["status"], document(done)["job"]) == ("refused", None)
    assert text in document(done)["error"]
    assert model.requests == []
    assert marks(stores / "crew") == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--input", "nineteen"), "must be NAME=VALUE"),
        (("--output", "9=mine"), "no task 9"),
        (("--output", "2={broken"), "This is not valid JSON"),
        (("--output", "1=@/nowhere"), "must be the path of a file that can be read"),
    ],
)
def test_invalid_arguments_are_reported_in_the_document_and_on_standard_error(
    in_process: Terminal, stores: Path, arguments: tuple[str, ...], text: str
) -> None:
    start = after_task(stores / "crew", 2)
    done = in_process("fork", f"{stores / 'crew'}#{start.id}", *arguments, "--json")
    assert done.returncode in (1, 2)
    assert text in document(done)["error"]
    assert text in done.stderr


def test_a_pruned_checkpoint_runs_from_its_stored_copy_after_consent(
    terminal: Terminal, model: TestModel, stores: Path, data_folder: Path
) -> None:
    location = stores / "crew"
    start = after_task(location, 2)
    body = json.loads(Path(start.source).read_bytes())
    root = next(entity for entity in body["entities"] if entity["entity_type"] == "crew")
    root["checkpoint_inputs"]["topic"] = f"AI with {KEY}"
    Path(start.source).write_text(json.dumps(body))
    # Refused because its branch exists already.
    assert "main" in terminal("fork", start.source, "--branch", "main").stdout
    Path(start.source).unlink()
    before = marks(location)
    fork = ("fork", f"{location}#{start.id}", "--entrypoint", "press_crew:make_crew", "--wait", "--json")
    refused = terminal(*fork)
    assert refused.returncode == 1
    assert "was pruned" in document(refused)["error"] and "the input topic" in document(refused)["error"]
    assert model.requests == []
    done = terminal(*fork, "--accept-hidden")
    assert document(done)["status"] == "succeeded", document(done)
    assert "Write about AI with [redacted] for 2026" in model.prompts()[0]
    assert set(model.keys) == {f"Bearer {KEY}"}
    new = written(location, before)
    assert is_chain(start.id, new) and new[-1].done == 4
    (folder,) = (data_folder / "jobs").iterdir()
    assert [path.name for path in folder.iterdir() if path.name == "checkpoint.json"] == []


def test_a_run_with_losses_starts_only_after_they_are_accepted(
    terminal: Terminal, model: TestModel, stores: Path
) -> None:
    location, start, before = crew_after(stores, 3)
    arguments = (
        "fork",
        f"{location}#{start.id}",
        "--branch",
        "alone",
        "--entrypoint",
        "",
        "--accept-effects",
        "--wait",
    )
    refused = terminal(*arguments, "--json")
    assert refused.returncode == 1
    printed = document(refused)
    assert (printed["status"], printed["checkpoints"]) == ("failed", [])
    assert "nobody has accepted that: links/task 4; unseen" in printed["error"]
    assert [part["what"] for part in printed["preflight"]["components"] if part["fate"] == "lost"] == [
        "links",
        "unseen",
    ]
    assert model.requests == [] and marks(location) == before
    done = terminal(*arguments, "--accept-losses")
    assert done.returncode == 0, done.stderr
    assert "Lost: task 4: which tasks it reads" in done.stdout
    assert written(location, before)[-1].done == 4
