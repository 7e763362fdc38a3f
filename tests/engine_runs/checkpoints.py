"""The checkpoints of a location before and after a run, and the prompts that the model received."""

import json
import sqlite3
from pathlib import Path

from tests.engine_runs.model import TestModel
from tests.engine_runs.runs import Saved, marks, saved_in


def after_task(location: Path, done: int, trigger: str = "task_completed") -> Saved:
    """Return the checkpoint after this number of finished tasks."""
    found = [saved for saved in saved_in(location) if saved.done == done and saved.body["trigger"] == trigger]
    return found[0]


def crew_after(
    stores: Path, done: int, trigger: str = "task_completed"
) -> tuple[Path, Saved, dict[str, str]]:
    """Return the location of the recorded crew, its checkpoint after these tasks, and a hash of each file."""
    location = stores / "crew"
    return location, after_task(location, done, trigger), marks(location)


def written(location: Path, before: dict[str, str]) -> list[Saved]:
    """Return the new checkpoints in lineage order. The originals must be unchanged, byte for byte."""
    now = marks(location)
    assert {path: now.get(path) for path in before} == before
    return [saved for saved in saved_in(location) if saved.source not in before]


def is_chain(start: str, saved: list[Saved]) -> bool:
    """Return whether each is the child of the one before it, and the first that of ``start``."""
    parents = {one.id: one.parent for one in saved}
    return len(parents) == len(saved) and sorted(parents.values()) == sorted(
        [start, *[one.id for one in saved if one.id in parents.values()]]
    )


def tasks_called(model: TestModel) -> list[str]:
    """Return the first word of each task that the model was called for."""
    return [prompt.partition("Current Task: ")[2].split()[0] for prompt in model.prompts()]


def after_method(location: Path, method: str) -> Saved:
    """Return the first checkpoint with this method finished."""
    return next(saved for saved in saved_in(location) if method in saved.root["checkpoint_completed_methods"])


def rows(store: Path) -> list[Saved]:
    """Return the checkpoints of a SQLite store in the order in which they were written."""
    # The last row may still be in the write-ahead log.
    logged = Path(f"{store}-wal").exists()
    connection = sqlite3.connect(f"file:{store}?mode=ro{'' if logged else '&immutable=1'}", uri=True)
    found = connection.execute("SELECT id, json(data) FROM checkpoints ORDER BY rowid").fetchall()
    connection.close()
    saved = []
    for name, data in found:
        body = json.loads(data)
        parent, branch = body.get("parent_id") or "", body.get("branch") or ""
        saved.append(Saved(name, parent, branch, f"{store}#{name}", body))
    return saved
