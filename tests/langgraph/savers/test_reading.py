"""A checkpoint saver of a project is read like a database with the same rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.imported import imported_location
from tests.langgraph.conftest import copied, opened
from viewer.host.locations.importing import import_location
from viewer.models import Checkpoint, Location
from viewer.records.bodies import stored_contents

COLUMNS = ("checkpoint_id", "parent__checkpoint_id", "branch", "trigger", "step", "run__key", "entity")


def listed(location: Location) -> list[tuple[object, ...]]:
    """Return columns of all checkpoints, after all runs were opened."""
    for key in location.runs.top_level().values_list("key", flat=True):
        opened(location, key)
    return sorted(location.checkpoints.values_list(*COLUMNS), key=repr)


def test_a_saver_is_read_as_its_database_is(recorded: Location, tmp_path: Path) -> None:
    assert import_location(recorded).read_error is None
    (tmp_path / "other").mkdir()
    file = imported_location(copied("lg12", tmp_path / "other"))
    assert listed(recorded) == listed(file)
    statuses = [dict(one.runs.values_list("key", "status")) for one in (recorded, file)]
    assert statuses[0] == statuses[1]
    assert recorded.checkpoints.count() > 30
    for checkpoint in recorded.checkpoints.all():
        other = file.checkpoints.get(source_key=checkpoint.source_key)
        assert body_of(checkpoint) == body_of(other), checkpoint.source_key


def body_of(checkpoint: Checkpoint) -> Mapping[str, Any]:
    """Return the decoded body without what a saver lacks: paths of tasks, types and numbers of writes."""
    found = stored_contents(checkpoint).body  # type: ignore[attr-defined]
    writes = [
        {**write, "task_path": "", "type": "", "index": min(write["index"], 0)} for write in found["writes"]
    ]
    return {name: value for name, value in found.items() if name != "task_names"} | {"writes": writes}
