"""Real runs whose key stays with Forkline: their models answer, and nothing that they store has the key."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine_runs.checkpoints import crew_after, written
from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import KEY, ROOT
from tests.environments import environment_with
from tests.runners.runs.conftest import Terminal, document

pytestmark = pytest.mark.engine


def keys_of(location: Path, data_folder: Path, *arguments: str) -> dict[str, str]:
    """Choose the keys that no run gets. Return them with their addresses."""
    command = [
        sys.executable,
        str(ROOT / "manage.py"),
        "checkpoints",
        "keys",
        str(location),
        *arguments,
        "--json",
    ]
    done = subprocess.run(command, env=environment_with(data_folder), capture_output=True, check=True)
    kept: dict[str, str] = json.loads(done.stdout)["kept_keys"]
    return kept


def test_a_crew_is_run_and_forked_twice_without_its_key(
    terminal: Terminal, model: TestModel, stores: Path, data_folder: Path
) -> None:
    location, start, before = crew_after(stores, 2)
    arguments = ("--entrypoint", "press_crew:make_crew", "--wait", "--json")
    first = terminal("fork", f"{location}#{start.id}", "--branch", "with-key", *arguments)
    assert document(first)["status"] == "succeeded"
    assert keys_of(location, data_folder, "--keep", "OPENAI_API_KEY") == {"OPENAI_API_KEY": model.url}
    model.reset()
    done = document(terminal("fork", f"{location}#{start.id}", "--branch", "without-key", *arguments))
    assert (done["status"], done["error"]) == ("succeeded", "")
    # A fork of what was written with the address of a proxy that has ended.
    again = f"{location}#{done['checkpoints'][0]['id']}"
    later = document(terminal("fork", again, "--branch", "again", *arguments))
    assert (later["status"], later["error"]) == ("succeeded", "")
    assert {key.removeprefix("Bearer ") for key in model.keys} == {KEY}
    new = [saved for saved in written(location, before) if saved.branch in ("without-key", "again")]
    assert new and not any(KEY in str(saved.body) for saved in new)
    # Without the keys, it is forked with the address of the environment file.
    assert keys_of(location, data_folder, "--keep-none") == {}
    last = document(terminal("fork", again, "--branch", "with-key-again", *arguments))
    assert (last["status"], last["error"]) == ("succeeded", "")
