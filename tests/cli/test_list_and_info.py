"""``manage.py import_checkpoints`` and ``checkpoints list|info``, as JSON or as text."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.environments import environment_with
from tests.real_stores import STORES, copy_of, hashes_below
from tests.terminal import Terminal

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parent.parent.parent
CHECKPOINT = {
    *(
        "id",
        "parent_id",
        "edge",
        "branch",
        "recorded_branch",
        "trigger",
        "created_at",
        "entity",
        "name",
        "units_done",
        "units_total",
    ),
    *("event_count", "tokens", "size", "state"),
}


def test_list_has_runs_checkpoints_and_problems(tmp_path: Path, terminal: Terminal) -> None:
    folder = copy_of("1.15.30/json", tmp_path)
    (folder / "package.json").write_text("{}")
    before = hashes_below(folder)
    answer = terminal.document("list", str(folder))
    assert set(answer) == {"location", "store_kind", "runs", "problems"}
    assert (answer["location"], answer["store_kind"]) == (str(folder), "json")
    assert [problem["path"] for problem in answer["problems"]] == ["package.json"]
    (run,) = answer["runs"]
    assert set(run) == {"id", "entity", "name", "branches", "checkpoints"}
    assert [(one["name"], one["status"]) for one in run["branches"]] == [("main", None), ("exp-a", None)]
    assert [one["head"] for one in run["branches"]] == [
        [row["id"] for row in run["checkpoints"] if row["branch"] == name][-1] for name in ("main", "exp-a")
    ]
    assert (run["entity"], run["name"]) == ("crew", "research")
    first, *_, last = run["checkpoints"]
    assert set(first) == CHECKPOINT
    assert first | {"size": 0} == {
        "id": "20261120T232826_35ce9d75",
        "parent_id": None,
        "edge": "root",
        "branch": "main",
        "recorded_branch": "main",
        "trigger": "task_started",
        "created_at": "2026-11-20T23:28:26+00:00",
        "entity": "crew",
        "name": "research",
        "units_done": 0,
        "units_total": 3,
        "event_count": 4,
        "tokens": 0,
        "size": 0,
        "state": "present",
    }
    assert (last["branch"], last["parent_id"]) == ("exp-a", "20261120T232952_e9a8cba4")
    assert hashes_below(folder) == before


def test_list_imports_first_and_includes_pruned_checkpoints(tmp_path: Path, terminal: Terminal) -> None:
    folder = copy_of("1.15.30/flow", tmp_path)
    terminal.document("list", str(folder))
    next(folder.rglob("*16755e62*")).unlink()
    (run,) = terminal.document("list", str(folder))["runs"]
    assert [row["state"] for row in run["checkpoints"]] == ["pruned", "present"]
    assert [row["edge"] for row in run["checkpoints"]] == ["root", "inferred"]
    assert run["checkpoints"][1]["parent_id"] == "20261120T233049_16755e62"


def test_a_missing_location_is_listed_with_its_checkpoints_and_an_error(
    tmp_path: Path, terminal: Terminal
) -> None:
    folder = copy_of("1.15.30/flow", tmp_path)
    listed = terminal.document("list", str(folder))
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(SystemExit, match="1"):
        call_command("checkpoints", "list", str(folder), "--json")
    printed = terminal.capsys.readouterr()
    assert json.loads(printed.out) == listed
    assert "is shown as last imported" in printed.err and "nothing at this path" in printed.err


def test_a_name_that_cannot_be_stored_is_refused_with_a_message(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"broken-\xff")
    folder.mkdir()
    with pytest.raises(CommandError, match="This path cannot be opened"):
        call_command("checkpoints", "list", str(folder), "--json")


def test_info_shows_typed_inputs_tasks_and_agents(terminal: Terminal) -> None:
    answer = terminal.document("info", f"{STORES}/1.14.1/cp.db#20261121T001343_a989052b")
    assert set(answer) == CHECKPOINT | {"inputs", "tasks", "flow_state", "agents", "unknown"}
    assert answer["inputs"] == {"topic": "AI", "year": 2026}
    assert [task["done"] for task in answer["tasks"]] == [True, True, False]
    assert set(answer["tasks"][0]) == {"id", "description", "agent", "done", "output"}
    assert answer["tasks"][0]["output"].startswith("answer e443c208")
    assert answer["tasks"][2]["output"] is None
    assert [agent["role"] for agent in answer["agents"]] == ["Researcher on AI", "Writer"]
    assert answer["flow_state"] is None


def test_info_of_a_file_finds_its_location_above_its_branch(terminal: Terminal) -> None:
    path = next((STORES / "1.14.7/flow/main").glob("*9b9e28fc*"))
    answer = terminal.document("info", str(path))
    assert (answer["id"], answer["name"], answer["units_done"]) == (
        "20261121T001654_9b9e28fc",
        "ArticleFlow",
        3,
    )
    assert answer["flow_state"]["id"] == "01175c58-2d71-4a40-951a-a824a09b191c"
    assert answer["edge"] == "recorded"


def test_the_methods_of_a_flow_are_counted_over_its_run(tmp_path: Path, terminal: Terminal) -> None:
    folder = copy_of("1.14.2/flow", tmp_path)
    (run,) = terminal.document("list", str(folder))["runs"]
    counts = [(row["units_done"], row["units_total"]) for row in run["checkpoints"]]
    assert counts == [(1, 3), (2, 3), (3, 3)]
    # Nothing at the location says that the flow has finished.
    listed = terminal.text("list", folder)
    assert re.findall(r" UTC +(.+?)  main", listed) == ["1/3", "2/3", "3 done"]
    for row, text in zip(run["checkpoints"], ("1 of 3 done,", "2 of 3 done,", "  3 done,"), strict=True):
        target = f"{folder}#{row['id']}"
        assert terminal.document("info", target)["units_total"] == row["units_total"]
        assert text in terminal.text("info", target)


def test_no_key_is_printed(terminal: Terminal) -> None:
    path = next((STORES / "1.15.30/agent/main").glob("*.json"))
    assert "sk-fake" in path.read_text()
    for arguments in (["list", path.parent.parent], ["info", path]):
        for form in ([], ["--json"]):
            assert "sk-fake" not in terminal.text(*arguments, *form)


def test_list_and_info_print_text(tmp_path: Path, terminal: Terminal) -> None:
    folder = copy_of("1.15.30/json", tmp_path)
    (folder / "package.json").write_text("{}")
    call_command("import_checkpoints", str(folder))
    assert "6 checkpoints, 6 new" in terminal.capsys.readouterr().out
    text = terminal.text("list", str(folder))
    assert "exp-a" in text and "package.json" in text and "2/3" in text
    assert "2026-11-20 23:28:26 UTC" in text
    text = terminal.text("info", f"{folder}#20261120T232827_0aa12db3")
    assert "year = 2026" in text and "Writer" in text


def test_import_reports_its_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copy_of("1.14.2/flow", tmp_path)
    call_command("import_checkpoints", str(folder), "--json")
    assert json.loads(capsys.readouterr().out) == {
        "location": str(folder),
        "store_kind": "json",
        "checkpoints": 3,
        "added": 3,
        "changed": 0,
        "pruned": 0,
        "problems": 0,
        "unavailable": [],
    }
    call_command("import_checkpoints", str(folder), "--json")
    assert json.loads(capsys.readouterr().out)["added"] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["import_checkpoints", "/nowhere"],
        ["checkpoints", "list", "/nowhere"],
        ["checkpoints", "list", __file__],
        ["checkpoints", "info", "/nowhere#x"],
        ["checkpoints", "info", __file__],
        ["checkpoints", "info", f"{STORES}/1.14.1/cp.db#absent"],
    ],
)
def test_an_invalid_argument_is_an_error_with_a_message(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError):
        call_command(*arguments)
    assert capsys.readouterr().out == ""
    with pytest.raises(CommandError) as error:
        call_command(*arguments, "--json")
    assert json.loads(capsys.readouterr().out) == {"error": str(error.value)}


def test_control_characters_of_a_checkpoint_are_not_printed(tmp_path: Path, terminal: Terminal) -> None:
    folder = copy_of("1.15.30/json", tmp_path)
    path = next(folder.rglob("*35ce9d75_p-none*"))
    order = "\x1b]0;mine\x07\x9b31m\u202e"
    text = path.read_text().replace("Review the summary", json.dumps(f"Look{order} at it 🧪")[1:-1])
    path.write_text(text)
    (folder / "main" / f"wrong{order}.json").write_text("{")
    target = f"{folder}#20261120T232826_35ce9d75"
    for arguments in (["list", str(folder)], ["info", target], ["fork", target, "--branch", "new", "--plan"]):
        for form in ([], ["--json"]):
            printed = terminal.text(*arguments, *form)
            assert not set(order) & set(printed) - set("]0;mine31"), (arguments, form)
    assert r"Look\x1b]0;mine\x07\x9b31m\u202e at it 🧪" in terminal.text("info", target)
    described = terminal.document("info", target)["tasks"][2]["description"]
    assert described == f"Look{order} at it 🧪"


def test_an_empty_data_folder_is_initialised_and_errors_go_to_stderr(tmp_path: Path) -> None:
    variables = environment_with(tmp_path / "data")
    store = copy_of("1.15.30/agent", tmp_path)

    def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)

    listed = manage("checkpoints", "list", str(store), "--json")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert len(json.loads(listed.stdout)["runs"]) == 1
    refused = manage("checkpoints", "list", str(tmp_path / "absent"), "--json")
    assert (refused.returncode, list(json.loads(refused.stdout))) == (1, ["error"])
    assert "nothing at this path" in refused.stderr
