"""``manage.py import_checkpoints`` and ``checkpoints list|info``, as JSON or as text."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from pytest_django import DjangoAssertNumQueries

from tests.environments import environment_with
from tests.real_stores import STORES, copy_of, hashes_below, write_checkpoint
from tests.terminal import Terminal, without_progress
from viewer.cli.commands.runs import run_document
from viewer.cli.rows import rows_by_run, runs_of
from viewer.models import Checkpoint, Location, Run

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
ROOT = Path(__file__).resolve().parent.parent.parent
CHECKPOINT = {
    *(
        "id",
        "key",
        "target",
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
    assert set(run) == {"id", "key", "entity", "name", "status", "branches", "checkpoints"}
    assert [(one["name"], one["status"]) for one in run["branches"]] == [("main", None), ("exp-a", None)]
    assert [one["head"] for one in run["branches"]] == [
        [row["id"] for row in run["checkpoints"] if row["branch"] == name][-1] for name in ("main", "exp-a")
    ]
    assert (run["entity"], run["name"]) == ("crew", "research")
    first, *_, last = run["checkpoints"]
    assert set(first) == CHECKPOINT
    assert first | {"size": 0} == {
        "id": "20261120T232826_35ce9d75",
        "key": Checkpoint.objects.get(checkpoint_id="20261120T232826_35ce9d75").pk,
        "target": f"{folder}#20261120T232826_35ce9d75",
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


def test_a_list_reads_runs_together(
    tmp_path: Path, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    location = Location.objects.create(path=str(tmp_path), engine="crewai")
    Run.objects.bulk_create(Run(location=location, key=f"{number}", uid=uuid4()) for number in range(3))
    # Their keys, the runs and their checkpoints.
    with django_assert_num_queries(3):
        documents = [run_document(*listed) for listed in rows_by_run(runs_of(location))]
    assert len(documents) == 3


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
    assert set(answer) == CHECKPOINT | {
        *("inputs", "prompt", "answer", "tasks", "methods", "flow_state", "agents", "unknown")
    }
    assert answer["inputs"] == {"topic": "AI", "year": 2026}
    assert [task["done"] for task in answer["tasks"]] == [True, True, False]
    assert set(answer["tasks"][0]) == {"id", "description", "agent", "done", "skipped", "output"}
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


@pytest.mark.parametrize("version", ["1.14.1", "1.14.2", "1.14.7"])
def test_info_of_a_lone_agent_shows_its_prompt_and_answer(
    version: str, tmp_path: Path, terminal: Terminal
) -> None:
    """1.14.7 records the prompt only until the agent has answered."""
    folder = copy_of(f"{version}/agent", tmp_path)
    (run,) = terminal.document("list", str(folder))["runs"]
    asked, answered = (terminal.document("info", f"{folder}#{row['id']}") for row in run["checkpoints"])
    assert asked["prompt"] == answered["prompt"] == "Research AI trends"
    assert asked["answer"] is None and answered["answer"].startswith("answer fcc3f391")
    text = terminal.text("info", f"{folder}#{answered['id']}")
    assert "? Research AI trends" in text and "✓ answer fcc3f391" in text


def test_info_of_a_flow_lists_its_methods_and_its_own_inputs(tmp_path: Path, terminal: Terminal) -> None:
    nodes = {
        "flow": {"type": "flow_started", "flow_name": "Press"},
        "first": {"type": "method_execution_started", "flow_name": "Press", "method_name": "work"},
        "crew": {"type": "crew_kickoff_started", "inputs": {"word": "of the crew"}},
    }
    entity = {
        "entity_type": "flow",
        "checkpoint_state": {"id": "press", "topic": "AI"},
        "checkpoint_completed_methods": ["work"],
        "checkpoint_method_counts": {"work": 2},
        "checkpoint_method_outputs": [{"method": "work", "output": {"text": "done"}}],
    }
    record = {"nodes": {key: {"event": event} for key, event in nodes.items()}}
    write_checkpoint(tmp_path, "20260101T000000_aaaaaaaa", entities=[entity], event_record=record)
    answer = terminal.document("info", f"{tmp_path}#20260101T000000_aaaaaaaa")
    assert answer["inputs"] == {}
    assert answer["methods"] == [{"name": "work", "done": True, "count": 2, "output": {"text": "done"}}]
    assert "✓ work  (2 times)" in terminal.text("info", f"{tmp_path}#20260101T000000_aaaaaaaa")


PRESS = """
from crewai.flow.flow import Flow, listen, or_, router, start

class ArticleFlow(Flow):
    @start()
    def outline(self): ...

    @router(outline)
    def length(self) -> Literal["long", "short"]: ...

    @listen("long")
    def draft(self): ...

    @listen(draft)
    def edit(self): ...
"""


def test_the_graph_of_a_flow_is_that_of_its_source(tmp_path: Path, terminal: Terminal) -> None:
    folder = copy_of("1.14.2/flow", tmp_path)
    (run,) = terminal.document("list", str(folder))["runs"]
    target = f"{folder}#{run['checkpoints'][0]['id']}"
    graph = terminal.document("info", target, "--graph")["graph"]
    assert graph["is_inferred"] and graph["nodes"][1:] == [
        {"name": "outline", "status": "done"},
        *graph["nodes"][2:],
    ]
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "press"\n')
    (tmp_path / "press.py").write_text(PRESS)
    graph = terminal.document("info", target, "--graph")["graph"]
    assert not graph["is_inferred"]
    assert [(node["name"], node["status"]) for node in graph["nodes"]] == [
        ("__start__", None),
        ("outline", "done"),
        ("length", "next"),
        ("draft", None),
        ("edit", None),
    ]
    edges = {(edge["from"], edge["to"]): edge["label"] for edge in graph["edges"]}
    assert edges == {
        ("__start__", "outline"): None,
        ("outline", "length"): None,
        ("length", "draft"): "long",
        ("draft", "edit"): None,
    }
    assert '"length" -> "draft" [label="long", style=dashed];' in terminal.text(
        "info", target, "--graph", "dot"
    )


CREW = """
from crewai import Agent, Crew, Task
from crewai.tasks.conditional_task import ConditionalTask as Maybe

def crew():
    return Crew(agents=[], tasks=[Task(description="A"), Maybe(description="Write a  summary of {topic}")])
"""


def test_a_task_that_was_skipped_is_shown_so_and_a_condition_ahead_is_planned(
    tmp_path: Path, terminal: Terminal
) -> None:
    folder = copy_of("1.15.30/json", tmp_path)
    newest = next((folder / "main").glob("*_0aa12db3_*"))
    body = json.loads(newest.read_text())
    tasks = body["entities"][0]["tasks"]
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "press"\n')
    template = tasks[2]["checkpoint_original_description"]
    (tmp_path / "press.py").write_text(
        CREW.replace("Write a  summary of {topic}", template.replace(" ", "  ", 1))
    )
    planned = terminal.document("fork", str(newest), "--plan")["plan"]
    assert (planned[2]["action"], planned[2]["reason"]) == ("may", "condition")
    graph = terminal.document("info", str(newest), "--graph")["graph"]
    conditional = [(edge["from"][:2], edge["to"][:2]) for edge in graph["edges"] if edge["is_conditional"]]
    assert conditional == [("2.", "3.")]
    # The last task has run, and the second never started.
    tasks[2]["output"], tasks[1]["output"] = tasks[1]["output"], None
    nodes = body["event_record"]["nodes"]
    for key in [key for key, node in nodes.items() if node["event"].get("task_id") == tasks[1]["id"]]:
        del nodes[key]
    newest.write_text(json.dumps(body))
    answer = terminal.document("info", str(newest))
    assert [(task["done"], task["skipped"]) for task in answer["tasks"]] == [
        (True, False),
        (False, True),
        (True, False),
    ]
    assert (answer["units_done"], answer["units_total"]) == (2, 2)
    assert "(skipped)" in terminal.text("info", str(newest))
    assert terminal.document("list", str(folder))["runs"][0]["branches"][0]["status"] == "completed"


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
    assert (listed.returncode, without_progress(listed.stderr)) == (0, "")
    assert len(json.loads(listed.stdout)["runs"]) == 1
    refused = manage("checkpoints", "list", str(tmp_path / "absent"), "--json")
    assert (refused.returncode, list(json.loads(refused.stdout))) == (1, ["error"])
    assert "nothing at this path" in refused.stderr


def test_a_list_starts_without_what_other_commands_import() -> None:
    code = "import sys, django; django.setup(); from viewer.cli import SUBCOMMANDS; SUBCOMMANDS['list']\n"
    code += "print({'graphviz', 'markdown_it', 'diff_match_patch', 'viewer.launching'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        # With a variable of Python, it is no fork of a process that has imported more.
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "set()\n", done.stdout + done.stderr
