"""Every version of the format, as CrewAI wrote it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from quality.local_stores import store_at
from tests.real_stores import STORES, VERSIONS, copy_of
from viewer.engines.crewai.store_format import created_at
from viewer.host.reading.snapshots import read_snapshot
from viewer.stores.protocol import Entry, LocationUnreadable, Snapshot


def snapshots(path: Path) -> dict[str, Snapshot]:
    """Return the snapshots of a location by checkpoint id. Fail if anything is not a checkpoint."""
    found: dict[str, Snapshot] = {}
    with store_at(path) as store:
        for entry in store.entries():
            assert isinstance(entry, Entry), entry
            snapshot = read_snapshot(store, entry)
            found[snapshot.checkpoint_id] = snapshot
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_flow_is_named_after_its_class_and_counts_its_methods(version: str) -> None:
    found = snapshots(STORES / version / "flow")
    assert {snapshot.entity for snapshot in found.values()} == {"flow"}
    assert {snapshot.name for snapshot in found.values()} <= {"ArticleFlow", "MyFlow"}
    assert max(snapshot.units_done for snapshot in found.values()) == 3
    # None was written after the end of the flow, so none knows the number of methods.
    assert all(snapshot.units_total in (0, snapshot.units_done + 1) for snapshot in found.values())
    assert len({snapshot.run_key for snapshot in found.values()}) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lone_agent_is_the_root_and_its_executor_is_not(version: str) -> None:
    found = snapshots(STORES / version / "agent")
    assert {(snapshot.entity, snapshot.name) for snapshot in found.values()} == {("agent", "Researcher")}
    last = found[max(found)]
    assert (last.units_done, last.units_total) == (1, 1)
    assert len({snapshot.run_key for snapshot in found.values()}) == 1


@pytest.mark.parametrize("version", ["1.14.1", "1.14.2", "1.15.30"])
def test_a_crew_counts_its_finished_tasks_despite_its_agents_flows(version: str) -> None:
    found = snapshots(STORES / version / "json")
    assert {(snapshot.entity, snapshot.name) for snapshot in found.values()} == {("crew", "research")}
    assert {snapshot.units_total for snapshot in found.values()} == {3}
    assert found[min(found)].units_done == 0
    assert len({snapshot.run_key for snapshot in found.values()}) == 1


def test_a_fork_has_its_branch_and_its_parent() -> None:
    fork = snapshots(STORES / "1.15.30/json")["20261120T232952_e9a8cba4"]
    assert (fork.branch, fork.parent_id) == ("exp-a", "20261120T232827_0aa12db3")
    assert (fork.trigger, fork.engine_version) == ("task_started", "1.15.30")
    assert fork.created_at == datetime(2026, 11, 20, 23, 29, 52, tzinfo=UTC)
    assert fork.tokens == 40


def test_a_time_that_not_every_time_zone_has_is_unknown() -> None:
    found = [created_at(f"{year}1231T235959_e9a8cba4") for year in ("0001", "9998", "9999")]
    assert found == [None, datetime(9998, 12, 31, 23, 59, 59, tzinfo=UTC), None]


@pytest.mark.parametrize("version", ["1.14.1", "1.14.2", "1.15.30"])
def test_the_subject_of_a_task_event_is_the_task(version: str) -> None:
    found = snapshots(STORES / version / "json").values()
    at_tasks = [snapshot for snapshot in found if snapshot.trigger.startswith("task_")]
    assert at_tasks and all(snapshot.subject for snapshot in at_tasks)
    assert {snapshot.subject for snapshot in found if snapshot.trigger.startswith("crew_")} <= {""}


def test_the_subject_of_a_method_event_is_the_method() -> None:
    found = snapshots(STORES / "1.15.30/flow").values()
    assert {snapshot.subject for snapshot in found} <= {"one", "two", "three"} and len(found)


def test_the_first_versions_trigger_is_their_last_event_and_their_parents_are_unknown() -> None:
    found = snapshots(STORES / "1.14.1/json")
    assert {snapshot.parent_id for snapshot in found.values()} == {None}
    assert {snapshot.branch for snapshot in found.values()} == {"main"}
    assert found["20261121T001330_ddf59eda"].trigger == "task_completed"
    assert found["20261121T001329_8069945e"].trigger == "task_started"


@pytest.mark.parametrize(("version", "count"), [("1.14.1", 3), ("1.15.30", 1)])
def test_sqlite_rows_are_read_like_files(version: str, count: int, tmp_path: Path) -> None:
    found = snapshots(copy_of(f"{version}/cp.db", tmp_path))
    assert len(found) == count
    assert {snapshot.entity for snapshot in found.values()} == {"crew"}
    assert all(snapshot.created_at and snapshot.size > 40_000 for snapshot in found.values())


def test_a_store_is_recognised_by_its_content_and_not_by_its_name(tmp_path: Path) -> None:
    file = copy_of("1.15.30/cp.db", tmp_path)
    disguised = file.rename(tmp_path / "notes.json")
    with store_at(disguised) as store:
        assert store.kind == "sqlite"
    folder = tmp_path / "store.db"
    folder.mkdir()
    with store_at(folder) as store:
        assert store.kind == "json"


@pytest.mark.parametrize("content", [b"", b"SQLite", b"{}", b"\0" * 4096])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    with pytest.raises(LocationUnreadable):
        store_at(path)
    with pytest.raises(LocationUnreadable):
        store_at(tmp_path / "absent")
