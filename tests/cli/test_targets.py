"""How commands name checkpoints and threads, so that each command accepts what another one prints."""

import json
import shutil
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.langgraph.conftest import RECORDED
from tests.langgraph.databases import Database, packed
from tests.real_stores import copy_of
from tests.terminal import Terminal
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
THREADS = ("ticket#7", "50%", "a%23b", "a#b", "#", "t/1#2/x")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database of threads whose ids have the characters of a target."""
    threads = Database(tmp_path / "threads#1.db")
    for thread in THREADS:
        for number in range(2):
            threads.add(number, packed({"thread": thread, "number": number}), thread_id=thread)
    threads.connection.close()
    return threads.path


def test_every_thread_is_listed_by_its_escaped_id(database: Path, terminal: Terminal) -> None:
    listed = terminal.document("list", str(database))["runs"]
    assert sorted(run["id"] for run in listed) == sorted(THREADS)
    # Their checkpoints are listed one thread at a time.
    assert not any("checkpoints" in run or "branches" in run for run in listed)
    for thread in THREADS:
        escaped = thread.replace("%", "%25").replace("#", "%23")
        (run,) = terminal.document("list", f"{database}#{escaped}")["runs"]
        assert (run["id"], len(run["checkpoints"])) == (thread, 2)
        assert {row["target"].rpartition("/")[0] for row in run["checkpoints"]} == {f"{database}#{escaped}"}


@pytest.mark.parametrize("thread", THREADS)
def test_targets_are_accepted_as_they_are_printed(database: Path, terminal: Terminal, thread: str) -> None:
    escaped = thread.replace("%", "%25").replace("#", "%23")
    (run,) = terminal.document("list", f"{database}#{escaped}")["runs"]
    first, second = (row["target"] for row in run["checkpoints"])
    assert terminal.document("info", second)["state"] == {"thread": thread, "number": 1}
    assert terminal.refused("diff", first, second)["differs"] is True
    assert terminal.document("fork", second, "--state", '{"number": 2}', "--plan")["status"] == "planned"
    assert terminal.document("note", second, "--name", "good")["checkpoint"] == run["checkpoints"][1]["id"]
    # On a busy machine, one call may not index everything in its time.
    wait_until(lambda: second in terminal.text("search", "good"))


@pytest.mark.parametrize("thread", ["ticket#7", "50%", "#"])
def test_a_thread_can_be_typed_without_escapes_if_that_is_clear(
    database: Path, terminal: Terminal, thread: str
) -> None:
    (run,) = terminal.document("list", f"{database}#{thread}")["runs"]
    assert run["id"] == thread


def test_a_thread_that_is_not_there_is_named(database: Path) -> None:
    with pytest.raises(CommandError, match="has no run nobody"):
        call_command("checkpoints", "list", f"{database}#nobody")


def test_a_checkpoint_of_a_folder_with_a_mark_in_its_name(tmp_path: Path, terminal: Terminal) -> None:
    folder = copy_of("1.15.30/json", tmp_path / "press #2")
    (run,) = terminal.document("list", str(folder))["runs"]
    target = run["checkpoints"][0]["target"]
    assert target == f"{folder}#{run['checkpoints'][0]['id']}"
    assert terminal.document("info", target)["target"] == target


def test_an_import_says_what_it_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = shutil.copy(RECORDED / "lg12.db", tmp_path)
    call_command("import_checkpoints", path)
    said = capsys.readouterr().out
    assert "9 runs, 9 new" in said and "0 checkpoints" not in said
    call_command("import_checkpoints", path, "--json")
    assert '"runs": 9, "counts": "runs"' in capsys.readouterr().out


@pytest.mark.parametrize("name", ["x" * 300, "{}#" + "x" * 300, "/" + "x" * 300 + "/y.json"])
@pytest.mark.parametrize("command", ["info", "publish", "fork"])
def test_a_name_that_no_file_can_have_names_no_checkpoint(
    database: Path, terminal: Terminal, command: str, name: str
) -> None:
    refused = terminal.refused(command, name.format(database))
    assert refused["error"].startswith("Name a checkpoint ")


@pytest.mark.parametrize("branch", [5, ["a"], {"a": 1}, True, "ABOVE", "\0"])
def test_a_file_with_any_branch_belongs_to_its_folder(
    tmp_path: Path, terminal: Terminal, branch: object
) -> None:
    folder = copy_of("1.15.30/json", tmp_path / "loose")
    file = next(folder.rglob("*.json"))
    body = json.loads(file.read_text())
    lone = tmp_path / "lone" / file.name
    lone.parent.mkdir()
    lone.write_text(json.dumps({**body, "branch": str(lone.parent) if branch == "ABOVE" else branch}))
    assert terminal.document("info", str(lone))["id"] == file.name.partition("_p-")[0]
    assert terminal.document("list", str(lone.parent))["location"] == str(lone.parent)
