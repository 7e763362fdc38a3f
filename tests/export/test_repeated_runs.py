"""Exported tests and notebooks: they repeat a run in the project's environment, without a model."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.engine_runs.exported import exported, run_exported, run_in
from tests.engine_runs.graphs import WarmGraphs
from tests.engine_runs.newsroom import FAKE_KEY
from tests.engine_runs.prewarmed import WarmPython
from tests.imported import imported_location
from tests.terminal import Terminal
from viewer.models import Location
from viewer.presentation.export import TESTS, file_name

pytestmark = pytest.mark.django_db
DEMO = Path(__file__).resolve().parents[2] / "demo"
HOSTILE = "'''\"\"\"\\'\n%%bash\n!touch owned\n%run x\nimport os?\n</script>{{7*7}}\u2028"
RECORD_THREAD = """
import sys
sys.path.insert(0, "src")
from support.main import main
for message in sys.argv[2:]:
    main(sys.argv[1], "one", message)
"""


def test_files_repeat_a_crew_in_its_project(
    warm_engine: WarmPython, written_stores: Path, settings: Any, tmp_path: Path
) -> None:
    settings.CHECKPOINT_ROOTS = [written_stores]
    run = imported_location(written_stores / "article").runs.get()
    before = sorted((written_stores / "article").rglob("*"))
    file = exported(run, "pytest", tmp_path, "newsroom.crew:Newsroom")
    text = file.read_text()
    assert FAKE_KEY not in text and str(written_stores) not in text
    # Another output in the record is noticed.
    file.with_name("test_changed.py").write_text(text.replace('"task 1": "', '"task 1": "Other. '))
    status, printed = run_exported(warm_engine, DEMO, tmp_path)
    assert status == 1 and "1 failed, 1 passed" in printed and "task 1 differs" in printed, printed
    assert "FAILED" in printed and "test_changed.py::" in printed, printed
    assert sorted((written_stores / "article").rglob("*")) == before


def test_files_repeat_a_thread_with_its_turns_and_tools(
    warm_langgraph: WarmGraphs, settings: Any, reader: Client, tmp_path: Path
) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    store, project = tmp_path / "support.db", DEMO / "support"
    turns = ("I want a refund for order 1002", "And a refund for order 1001")
    python = warm_langgraph.engine
    status, printed = run_in(python, project, tmp_path, RECORD_THREAD, str(store), *turns)
    assert status == 0, printed
    run = imported_location(store).runs.get(key="one")
    reader.get(reverse("run", args=[run.uid]))
    run.refresh_from_db()
    for name in TESTS:
        file = exported(run, name, tmp_path, "support.graph:graph")
        status, printed = run_exported(python, project, file)
        assert status == 0, printed
    # Answers that request another tool are another run.
    file.write_text(file.read_text().replace("find_order", "other_tool"))
    status, printed = run_exported(python, project, file)
    assert status == 1 and "AssertionError" in printed, printed


def test_nothing_of_a_checkpoint_is_part_of_the_code(
    written_stores: Path, settings: Any, tmp_path: Path
) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    (folder := tmp_path / "hostile").mkdir()
    for path in (written_stores / "article").rglob("*.json"):
        text = path.read_text().replace("AI checkpoints", json.dumps(HOSTILE)[1:-1])
        (folder / path.name).write_text(text.replace('"article"', json.dumps(HOSTILE)))
    run = imported_location(folder).runs.get()
    text, notebook = TESTS["pytest"].write(run), json.loads(TESTS["notebook"].write(run))
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    record = cells["record"]["source"]
    # The same lines are in both, and each with data is one literal.
    assert all(cells[name]["source"] in text for name in ("code", "record")) and text.isascii()
    assert all(
        re.fullmatch(r"ENTRY_POINT = .*|RECORD = \(|    (['\"]).*\1|\)", one) for one in record.splitlines()
    )
    assert [type(one) for one in ast.parse(record).body] == [ast.Assign, ast.Assign]
    names: dict[str, Any] = {}
    exec(compile(record, "record", "exec"), names)
    assert json.loads(names["RECORD"])["inputs"]["topic"] == HOSTILE
    rest = "".join(cell["source"] for name, cell in cells.items() if name != "record")
    assert "owned" not in rest + text.replace(record, "")
    assert re.fullmatch(r"test_[\w-]+\.py", file_name(run, TESTS["pytest"]))


def test_a_run_that_no_test_can_repeat_is_refused_with_a_reason(
    crew_location: Location, reader: Client, terminal: Terminal
) -> None:
    run = crew_location.runs.get()
    target = f"{crew_location.path}#{crew_location.checkpoints.earliest('row').checkpoint_id}"
    for name in TESTS:
        page = reader.get(reverse("run-export", args=[run.uid]), {"format": name}, follow=True)
        assert page.status_code == 200 and b"No test can repeat this run" in page.content
        refused = terminal.refused("export", target, "--format", name, "--output", "-")
        assert "No test can repeat this run" in refused["error"]
