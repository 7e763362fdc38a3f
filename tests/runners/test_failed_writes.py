"""Real runs whose location is full, unwritable or moved away: each write that fails is reported."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.runners import children
from tests.runners.children import marks, new_run_request, request_for
from tests.runners.conftest import Engine
from tests.runners.model_server import ModelServer
from tests.runners.reading import after_task
from tests.runners.test_new_runs import INPUTS

pytestmark = pytest.mark.engine


@contextmanager
def unwritable(folder: Path) -> Iterator[str]:
    """A location where every write fails for real, and why: a full disk where this user may mount one."""
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


def test_a_run_at_a_full_disk_reports_every_write_and_still_gives_its_result(
    engine: Engine, tmp_path: Path
) -> None:
    with unwritable(tmp_path / "full") as reason:
        asked = new_run_request(tmp_path / "full", "crew", "press_crew:make_crew", INPUTS)
        run = engine.run(asked)
    assert run.end["status"] == "succeeded", run.end
    assert run.end["result"]
    failed = run.of("checkpoint_failed")
    assert failed and not run.of("checkpoint")
    assert {one["error"] for one in failed} == {reason}
    assert not any(one["moved"] for one in failed)


@pytest.mark.parametrize("provider", ["json", "sqlite"])
def test_a_location_that_is_renamed_while_a_run_writes_there_is_not_made_anew(
    engine: Engine, model: ModelServer, tmp_path: Path, provider: str
) -> None:
    place = tmp_path / ("runs.db" if provider == "sqlite" else "runs")
    asked = new_run_request(
        place,
        "crew",
        "press_crew:make_crew",
        INPUTS,
        {"events": ["task_started", "task_completed"]},
        provider=provider,
    )
    model.gate.clear()
    folder = engine.job()
    with children.started(engine.python, model, folder, asked) as child:
        model.wait_for(1)
        place.rename(tmp_path / "renamed")
        before = marks(tmp_path / "renamed")
        model.gate.set()
        run = children.ended(folder, child)
    assert run.end["status"] == "succeeded", run.end
    assert run.of("checkpoint"), "It had begun to write."
    assert run.of("checkpoint_failed")
    assert all(one["moved"] for one in run.of("checkpoint_failed"))
    assert not place.exists()
    assert marks(tmp_path / "renamed") == before


def test_a_resume_at_a_location_that_was_replaced_leaves_the_other_alone(
    engine: Engine, model: ModelServer, stores: Path
) -> None:
    location = stores / "crew"
    asked = request_for(after_task(location, 1), location, kind="resume", entry_point="press_crew:make_crew")
    model.gate.clear()
    folder = engine.job()
    with children.started(engine.python, model, folder, asked) as child:
        model.wait_for(1)
        location.rename(stores / "renamed")
        location.mkdir()
        model.gate.set()
        run = children.ended(folder, child)
    assert run.end["status"] == "succeeded", run.end
    assert all(one["moved"] for one in run.of("checkpoint_failed"))
    assert run.of("checkpoint_failed")
    assert list(location.iterdir()) == []
