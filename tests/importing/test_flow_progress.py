"""The progress of flows: a checkpoint knows only the methods that have begun."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from tests.imported import imported_location
from tests.migrating import single_migrations
from tests.real_stores import copy_of, write_checkpoint
from viewer.host.jobs.ending import mark_end
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.models import Checkpoint, Job, JobEvent, Location, Run

pytestmark = pytest.mark.django_db

FIRST, SECOND, THIRD, FOURTH = (f"20260101T00000{number}_aaaaaaaa" for number in range(4))


def flow(done: Sequence[str], begun: Sequence[str] = (), *ends: str, inner: str = "") -> dict[str, Any]:
    """A flow's checkpoint: finished methods, methods that have begun, then further events.

    ``inner`` is what was the last to happen in a flow that it had started itself.
    """
    events: list[tuple[str, str, str | None]] = [("flow_started", "Press", None)]
    for name in done:
        events += [("method_execution_started", "Press", name), ("method_execution_finished", "Press", name)]
    events += [("method_execution_started", "Press", name) for name in begun]
    if inner:
        events += [("flow_started", "Inner", None), ("method_execution_started", "Inner", "within")]
        events += [(inner, "Inner", None)]
    events += [(end, "Press", None) for end in ends]
    nodes = {
        f"event {number}": {"event": {"type": kind, "flow_name": name, "method_name": method}}
        for number, (kind, name, method) in enumerate(events)
    }
    entity = {
        "entity_type": "flow",
        "checkpoint_state": {"id": "press"},
        "checkpoint_completed_methods": list(done),
        "checkpoint_method_counts": dict.fromkeys(done, 1),
    }
    return {"entities": [entity], "event_record": {"nodes": nodes}, "trigger": "method_execution_finished"}


def progress(folder: Path) -> list[str]:
    """The progress of each checkpoint after an import, oldest first."""
    location = imported_location(folder)
    return shown(location)


def shown(location: Location) -> list[str]:
    return [row.progress for row in location.checkpoints.select_related("run").order_by("row")]


@pytest.mark.parametrize("version", ["1.14.1", "1.14.2", "1.14.7"])
def test_the_total_of_earlier_checkpoints_comes_from_later_ones(version: str, tmp_path: Path) -> None:
    assert progress(copy_of(f"{version}/flow", tmp_path)) == ["1/3", "2/3", "3 done"]


def test_the_total_grows_while_the_flow_runs(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, FIRST, **flow(["a"]))
    assert progress(tmp_path) == ["1 done"]
    write_checkpoint(tmp_path, SECOND, FIRST, **flow(["a", "b"], ["c"]))
    assert progress(tmp_path) == ["1/3", "2/3"]
    write_checkpoint(tmp_path, THIRD, SECOND, **flow(["a", "b", "c"]))
    assert progress(tmp_path) == ["1/3", "2/3", "3 done"]
    write_checkpoint(tmp_path, FOURTH, THIRD, **flow(["a", "b", "c"], [], "flow_finished"))
    assert progress(tmp_path) == ["1/3", "2/3", "3/3", "3/3"]


def test_branches_share_the_total_of_their_run(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, FIRST, **flow(["a"]))
    write_checkpoint(tmp_path, SECOND, FIRST, **flow(["a", "b", "c"], [], "flow_finished"))
    write_checkpoint(tmp_path, THIRD, FIRST, "other", **flow(["a", "b"]))
    assert progress(tmp_path) == ["1/3", "3/3", "2/3"]


def test_a_finished_flow_is_complete_even_if_another_branch_has_more_methods(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, FIRST, **flow(["a"]))
    write_checkpoint(tmp_path, SECOND, FIRST, **flow(["a", "b"], ["overtaken"], "flow_finished"))
    write_checkpoint(tmp_path, THIRD, FIRST, "other", **flow(["a", "c", "d"]))
    assert progress(tmp_path) == ["1/3", "2/2", "3 done"]


@pytest.mark.parametrize(
    "unfinished",
    [
        flow(["a"], [], "flow_failed"),
        flow(["a"], [], "flow_finished", "flow_started"),
        flow(["a"], inner="flow_finished"),
        {**flow(["a", "b"], [], "flow_finished"), **{"entities": flow(["a"])["entities"]}},
    ],
    ids=["failed", "started again", "a flow inside finished", "a method is to run again"],
)
def test_an_unfinished_flow_is_not_complete(unfinished: dict[str, Any], tmp_path: Path) -> None:
    write_checkpoint(tmp_path, FIRST, **unfinished)
    assert progress(tmp_path) in (["1 done"], ["1/2"])


def test_methods_of_a_nested_flow_do_not_count(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, FIRST, **flow(["a"], ["b"], inner="method_execution_finished"))
    assert progress(tmp_path) == ["1/2"]


@pytest.mark.django_db(transaction=True)
def test_the_migration_computes_the_same_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "finished"
    write_checkpoint(folder, FIRST, **flow(["a"]))
    write_checkpoint(folder, SECOND, FIRST, **flow(["a", "b"], ["c"]))
    last = {**flow(["a", "b", "c"], [], "flow_finished"), "trigger": "flow_finished"}
    write_checkpoint(folder, THIRD, SECOND, **last)
    others = [copy_of("1.14.7/flow", tmp_path / name) for name in ("elsewhere", "here")]
    locations = [open_location(path) for path in (folder, *others)]
    for location in locations:
        import_location(location)
    mark_end(
        job_that_wrote(locations[2].checkpoints.latest("row")), Job.Status.SUCCEEDED, is_incomplete=False
    )
    now = stored()
    Checkpoint.objects.filter(units_total=0).update(units_total=F("units_done"))
    Run.objects.update(units_known=0, all_units_known=False)
    before_renames = [("viewer", "0013_one_row_of_day_limits")]
    executor = single_migrations()
    executor.migrate(before_renames)
    migration = importlib.import_module("viewer.migrations.0004_methods_of_flows")
    migration.store_methods(executor.loader.project_state(before_renames).apps, None)
    executor = single_migrations()
    executor.migrate(executor.loader.graph.leaf_nodes())
    assert stored() == now
    assert [shown(location)[2] for location in locations] == ["3/3", "3 done", "3/3"]


def job_that_wrote(checkpoint: Checkpoint) -> Job:
    """A job that has succeeded and wrote this checkpoint."""
    job = Job.objects.create(
        kind="run", location=checkpoint.location, run=checkpoint.run, status=Job.Status.SUCCEEDED
    )
    JobEvent.objects.create(
        job=job, seq=1, kind="checkpoint", at=timezone.now(), data={"id": checkpoint.checkpoint_id}
    )
    return job


def stored() -> tuple[list[Any], list[Any]]:
    runs = Run.objects.order_by("pk").values_list("units_known", "all_units_known")
    return list(runs), list(Checkpoint.objects.order_by("pk").values_list("units_done", "units_total"))
