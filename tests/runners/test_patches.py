"""Every patch to CrewAI is in one folder, documents its reason, and names a test that fails without it."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNNERS = ROOT / "viewer/runners"
PATCHES_FOLDER = RUNNERS / "forkline_crewai/patches"
PATCHES = sorted(PATCHES_FOLDER.glob("*.py"))
FIELD = re.compile(r"^(Patches|Versions|Why|Test): (.+(?:\n    .+)*)$", re.MULTILINE)
FOREIGN = {"crewai", "crewai_core", "pydantic", "dotenv"}
HANDLER = """
import sys, time
sys.path.insert(0, {runners!r})
from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.crew_events import CrewKickoffStartedEvent
from crewai.state import checkpoint_listener
from forkline_crewai.patches import recording

written = []

@crewai_event_bus.on(CrewKickoffStartedEvent)
def write(source, event):
    time.sleep(1)
    written.append(event)

checkpoint_listener._should_checkpoint = lambda source, event: True
recording.await_writes()
crewai_event_bus.emit(None, CrewKickoffStartedEvent(crew_name="press", inputs={{}}))
assert written, "emit returned before the checkpoint was written"
"""
LAST_WRITE = """
import sys, time
sys.path.insert(0, {runners!r})
from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.crew_events import CrewKickoffStartedEvent
from forkline_crewai import job, runs

written = []

@crewai_event_bus.on(CrewKickoffStartedEvent)
def write(source, event):
    time.sleep(1)
    written.append(event)

crewai_event_bus.emit(None, CrewKickoffStartedEvent(crew_name="press", inputs={{}}))
job.flush()
assert written, "a run ended before the last checkpoint was written"
"""
SECRETS = """
import os, sys
sys.path.insert(0, {runners!r})
import dotenv
from crewai_core.token_manager import TokenManager
from forkline_crewai.patches import secrets_hidden

TokenManager.get_token = lambda self: "signed-in"
calls = []
with secrets_hidden(calls):
    dotenv.load_dotenv(".env")
    assert dotenv.dotenv_values(".env") == {{}}, "a file was read"
    assert TokenManager.get_token(None) is None, "the sign-in was read"
assert "CANARY" not in os.environ, "a file was loaded"
assert [arguments for _, arguments, _ in calls] == [(".env",)]
assert dotenv.dotenv_values(".env") == {{"CANARY": "1"}}
assert TokenManager.get_token(None) == "signed-in"
"""


def functions() -> Iterator[tuple[str, str]]:
    """Yield the name and docstring of each function of the folder."""
    for path in PATCHES:
        module = path.stem.replace("__init__", "")
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{module}.{node.name}".lstrip("."), ast.get_docstring(node) or ""


def documented_patches() -> Iterator[tuple[str, str]]:
    """Yield the name and docstring of each function that documents a patch."""
    return ((name, docstring) for name, docstring in functions() if "\nPatches: " in docstring)


@pytest.mark.parametrize(("name", "docstring"), list(documented_patches()))
def test_a_patch_documents_itself_and_names_an_existing_test(name: str, docstring: str) -> None:
    fields = {field: " ".join(text.split()) for field, text in FIELD.findall(docstring)}
    assert fields.keys() == {"Patches", "Versions", "Why", "Test"}
    assert re.match(r"1\.1[45]\.\d+ (and newer|to )", fields["Versions"])
    file, _, test = fields["Test"].replace(":: ", "::").partition("::")
    tests = {
        node.name: node
        for node in ast.parse((ROOT / file).read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert test in tests
    assert test.startswith("test_") or any("row(" in ast.unparse(one) for one in tests[test].decorator_list)


def test_the_table_lists_every_patch() -> None:
    table = ast.get_docstring(ast.parse((PATCHES_FOLDER / "__init__.py").read_text())) or ""
    listed = re.findall(r"^([\w.]*_\w+) {2,}\S", table, re.MULTILINE)
    assert sorted(listed) == sorted(name for name, _ in documented_patches())


def test_each_public_function_documents_a_patch_but_for_three_that_change_nothing() -> None:
    public = {name for name, _docstring in functions() if not name.rpartition(".")[2].startswith("_")}
    others = public - {name for name, _docstring in documented_patches()}
    assert others == {"questions.feedback_for", "questions.feedback_config", "recording.count_tokens"}


def assignments_to_foreign_objects(tree: ast.Module) -> Iterator[str]:
    """Return the attributes that a module sets on objects imported from the engine or its libraries."""
    foreign: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.asname or alias.name.split(".")[0] for alias in node.names]
            foreign |= {name for name in found if name in FOREIGN}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FOREIGN:
            foreign |= {alias.asname or alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Name) and node.value.id in foreign:
            foreign |= {ast.unparse(node.target)}
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else []:
            for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(one, ast.Attribute) and ast.unparse(one).split(".")[0] in foreign:
                    yield ast.unparse(one)
        match node:
            case ast.Call(func=ast.Name("setattr"), args=[owner, *_]):
                if ast.unparse(owner).split(".")[0] in foreign:
                    yield ast.unparse(node)


def test_only_patches_assign_to_the_engine() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): list(assignments_to_foreign_objects(ast.parse(path.read_text())))
        for path in RUNNERS.rglob("*.py")
        if path not in PATCHES
    }
    assert not {path: assigned for path, assigned in found.items() if assigned}


def test_the_check_finds_assignments() -> None:
    source = "from crewai import Crew\nengine: Any = Crew\nengine.kickoff = 1\nCrew.a, Crew.b = 2, 3\n"
    tree = ast.parse(source + "setattr(Crew, 'c', 4)\nown.kickoff = 5\n")
    assert list(assignments_to_foreign_objects(tree)) == [
        "engine.kickoff",
        "Crew.a",
        "Crew.b",
        "setattr(Crew, 'c', 4)",
    ]


def run_in_engine(python: Path, program: str, folder: Path) -> None:
    code = program.format(runners=str(RUNNERS))
    done = subprocess.run([str(python), "-c", code], cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_run_waits_for_each_checkpoint(engine_python: Path, tmp_path: Path) -> None:
    run_in_engine(engine_python, HANDLER, tmp_path)


def test_a_run_ends_after_its_last_write(engine_python: Path, tmp_path: Path) -> None:
    run_in_engine(engine_python, LAST_WRITE, tmp_path)


def test_environment_files_and_sign_in_are_hidden_at_import(engine_python: Path, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("CANARY=1\n")
    run_in_engine(engine_python, SECRETS, tmp_path)
