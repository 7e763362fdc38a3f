"""Runs are the same in every order in which checkpoints are imported."""

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from tests.imported import imported_location
from tests.real_stores import STORES, copy_of, write_checkpoint
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location, import_one
from viewer.models import Location

pytestmark = pytest.mark.django_db


def test_a_late_parent_merges_two_runs(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "20260101T000000_aaaaaaaa", None, entities=agent("one"))
    write_checkpoint(tmp_path, "20260101T000002_cccccccc", "20260101T000001_bbbbbbbb", entities=agent("two"))
    location = imported_location(tmp_path)
    assert location.runs.count() == 2
    first = location.runs.get(key="one")
    write_checkpoint(tmp_path, "20260101T000001_bbbbbbbb", "20260101T000000_aaaaaaaa", entities=agent("two"))
    import_location(location)
    run = location.runs.get()
    assert (run, run.checkpoint_count) == (first, 3)
    parent_links = list(run.checkpoints.order_by("row").values_list("parent_link", flat=True))
    assert parent_links == ["root", "recorded", "recorded"]


def agent(run_key: str) -> list[dict[str, Any]]:
    return [{"entity_type": "agent", "role": "Writer", "checkpoint_kickoff_event_id": run_key}]


def test_importing_one_by_one_equals_importing_all(tmp_path: Path) -> None:
    source = copy_of("1.15.30/json", tmp_path / "source")
    whole = imported_location(source)
    target = tmp_path / "target"
    target.mkdir()
    location = open_location(target)
    for path in sorted(source.rglob("*.json"), key=lambda path: path.name, reverse=True):
        copied = target / path.relative_to(source)
        copied.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copied)
        summary = import_one(location, str(copied))
        assert (summary.read, summary.added) == (1, 1)
    assert lineage_of(location) == lineage_of(whole)
    location.refresh_from_db()
    assert location.revision == 6


def lineage_of(location: Location) -> list[tuple[Any, ...]]:
    run = location.runs.get()
    rows = location.checkpoints.order_by("row").values_list(
        *(
            "source_key",
            "checkpoint_id",
            "parent__checkpoint_id",
            "parent_link",
            "lane",
            "row",
            "is_branch_head",
            "tokens",
        )
    )
    return [*rows, (run.key, run.name, run.checkpoint_count, run.tokens, run.lane_count, run.branch_count)]


@pytest.mark.django_db(transaction=True)
def test_concurrent_imports_store_each_checkpoint_once(tmp_path: Path) -> None:
    for version in ("1.14.1", "1.14.2", "1.15.30"):
        copy_of(f"{version}/json", tmp_path)
    location = open_location(tmp_path)
    failures: list[Exception] = []

    def work() -> None:
        try:
            import_location(Location.objects.get(pk=location.pk))
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    expected = sum(
        len(list((STORES / version / "json").rglob("*.json"))) for version in ("1.14.1", "1.14.2", "1.15.30")
    )
    assert location.checkpoints.count() == expected
    location.refresh_from_db()
    assert location.revision == 1


def test_tokens_are_counted_once_over_several_imports(tmp_path: Path) -> None:
    source = STORES / "1.15.30/json"
    location = open_location(tmp_path)
    for path in sorted(source.rglob("*.json"), key=lambda path: path.name):
        copied = tmp_path / path.relative_to(source)
        copied.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copied)
        import_location(location)
    assert location.runs.get().tokens == 60
