"""Real runs at a full, unwritable or moved location: each failed write is reported."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engine_runs import runs as children
from tests.engine_runs.checkpoints import after_task
from tests.engine_runs.runs import marks, new_run_request, request_for
from tests.runners.conftest import Engine
from tests.runners.runs.test_new_runs import INPUTS


@contextmanager
def unwritable(folder: Path) -> Iterator[str]:
    """Return a location where every write fails, and why: a full disk if this user may mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k,nr_inodes=8", "tmpfs", str(folder)]
    if os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0:
        try:
            (folder / "ballast").write_bytes(b"x" * 12_288)
            yield "No space left on device"
        finally:
            subprocess.run(["umount", str(folder)], check=True)
        return
    (folder / "main").write_text("not a folder")
    yield "File exists"


def test_a_run_on_a_full_disk_reports_every_failed_write(engine: Engine, tmp_path: Path) -> None:
    with unwritable(tmp_path / "full") as reason:
        asked = new_run_request(tmp_path / "full", "crew", "press_crew:make_crew", INPUTS)
        run = engine.run(asked)
    assert run.end["status"] == "succeeded", run.end
    assert run.end["result"]
    failed = run.of("checkpoint_failed")
    assert failed and not run.of("checkpoint")
    assert {one["error"] for one in failed} == {reason}
    assert not any(one["moved"] for one in failed)


@pytest.mark.parametrize("store_kind", ["json", "sqlite"])
def test_a_location_renamed_during_a_run_is_not_created_again(
    engine: Engine, tmp_path: Path, store_kind: str
) -> None:
    target = tmp_path / ("runs.db" if store_kind == "sqlite" else "runs")
    asked = new_run_request(
        target,
        "crew",
        "press_crew:make_crew",
        INPUTS,
        {"events": ["task_started", "task_completed"]},
        store_kind=store_kind,
    )
    engine.model.gate.clear()
    folder = engine.job()
    with children.started(engine.python, engine.model, folder, asked) as child:
        engine.model.wait_for(1)
        target.rename(tmp_path / "renamed")
        before = marks(tmp_path / "renamed")
        engine.model.gate.set()
        run = children.ended(folder, child)
    assert run.end["status"] == "succeeded", run.end
    assert run.of("checkpoint"), "It had begun to write."
    assert run.of("checkpoint_failed")
    assert all(one["moved"] for one in run.of("checkpoint_failed"))
    assert not target.exists()
    assert marks(tmp_path / "renamed") == before


def test_a_resume_at_a_replaced_location_leaves_the_new_one_unchanged(engine: Engine, stores: Path) -> None:
    location = stores / "crew"
    asked = request_for(after_task(location, 1), location, kind="resume", entry_point="press_crew:make_crew")
    engine.model.gate.clear()
    folder = engine.job()
    with children.started(engine.python, engine.model, folder, asked) as child:
        engine.model.wait_for(1)
        location.rename(stores / "renamed")
        location.mkdir()
        engine.model.gate.set()
        run = children.ended(folder, child)
    assert run.end["status"] == "succeeded", run.end
    assert all(one["moved"] for one in run.of("checkpoint_failed"))
    assert run.of("checkpoint_failed")
    assert list(location.iterdir()) == []
