"""Threads of each kind of store are pruned: LangGraph reads what stays as before."""

import json
import os
import subprocess
import time
from typing import Any

import pytest

from quality.compatibility.graphs.table import ROW
from tests.engine_runs.graphs import PROJECT, ROOT, TICKET, record, run_program
from tests.engine_runs.sides import Side, Store

PROGRAM = ROOT / "viewer/runners/saver_runner.py"
GRAPHS = ("fan", "nested", "spread", "chat")
HOUR = 3600


def read(side: Side) -> dict[str, str]:
    """What LangGraph reads of each checkpoint, by thread, namespace and id."""
    printed = run_program(side.engine, side.folder, PROJECT / "tuples.py", side.address)
    return dict(json.loads(printed.splitlines()[-1]))


def pruned(side: Side, digest: str = "", **rules: Any) -> Any:
    """What the runner lists or deletes."""
    request = {
        "path": side.location["path"],
        "rules": {"days": None, "latest": None, "thread": "", "whole": False, **rules},
        "now": time.time() + HOUR,
        "saver": [],
        "protected": {},
        "kept_threads": [],
        "digest": digest,
    }
    reading, end = os.pipe()
    try:
        done = subprocess.run(
            [str(side.python), str(PROGRAM), "prune", str(reading)],
            input=json.dumps(request),
            env={"PATH": os.environ["PATH"], **side.variables},
            capture_output=True,
            text=True,
            check=False,
            pass_fds=(reading,),
        )
    finally:
        os.close(reading)
        os.close(end)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("what", "rules"),
    [
        ("the newest of each branch stays", {"latest": 1}),
        ("a whole thread is deleted", {"thread": "fan", "whole": True}),
    ],
)
def test_what_stays_of_pruned_threads_is_read_as_before(
    what: str, rules: dict[str, Any], store: Store, record_property: Any
) -> None:
    record_property(ROW, f"pruned threads: {what} ({store.name})")
    side = store.recorded
    for graph in GRAPHS:
        record(side.engine, side.folder, graph, graph, {"topic": "cats", "ticket": TICKET}, side.address)
    before, rows = read(side), side.rows()
    listed = pruned(side, **rules)
    assert side.rows() == rows and listed["rows"] and not listed["deleted"]
    assert pruned(side, listed["digest"], **rules)["deleted"]
    deleted = {"/".join(key) for key in listed["rows"]}
    assert read(side) == {key: found for key, found in before.items() if key not in deleted}
    assert not pruned(side, **rules)["rows"]
