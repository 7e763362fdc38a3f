"""A long thread shows its newest checkpoints before the others are listed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.langgraph.conftest import RECORDED, VERSIONS
from tests.langgraph.databases import Database, checkpoint_id, long_thread
from viewer.engines.langgraph.threads import listing
from viewer.engines.langgraph.threads.store import LangGraphStore, SqliteTables
from viewer.host.locations.adding import open_location
from viewer.host.locations.completing import complete_some
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_run
from viewer.models import Run
from viewer.stores.protocol import ReadLimits, RunIndex

pytestmark = pytest.mark.postgresql

COUNT = listing.MIN_CHECKPOINTS + 200
# The newest checkpoints, which fork an early one, with their parents.
FORK = {COUNT: 100, COUNT + 1: COUNT}
# Columns that the complete listing does not change.
KEPT = (
    "pk",
    "row",
    "lane",
    "branch",
    "is_branch_head",
    "parent_link",
    "trigger",
    "step",
    "units",
    "created_at",
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a long thread that was forked once."""
    return long_thread(tmp_path_factory.mktemp("long") / "threads.db", COUNT, FORK)


@pytest.fixture
def run(db: None, database: Path) -> Run:
    """The long thread, not opened yet."""
    location = open_location(database)
    import_location(location)
    return location.runs.select_related("location").get()


def columns(run: Run) -> dict[str, tuple[Any, ...]]:
    """Return what is shown of each stored checkpoint, by its id."""
    rows = run.checkpoints.values_list("checkpoint_id", "parent__checkpoint_id", *KEPT)
    return {own_id: shown for own_id, *shown in rows}


def test_its_page_shows_the_newest_rows_and_every_branch(run: Run, reader: Client) -> None:
    page = reader.get(run.get_absolute_url()).content.decode()
    run.refresh_from_db()
    assert (run.is_partly_listed, run.checkpoint_count, run.branch_count) == (True, COUNT + 2, 2)
    assert run.listed_count < listing.MAX_NEWEST + 10
    assert f"{run.listed_count} listed so far" in page
    assert [row.checkpoint_id for row in run.checkpoints.order_by("-row")[:3]] == [
        checkpoint_id(number) for number in (COUNT + 1, COUNT, COUNT - 1)
    ]
    for branch in run.branch_names:
        assert f'data-name="{branch}"' in page
    assert len(run.branch_names) == 2
    # The page asks for the rest.
    assert "location-changed from:body, load" in page


def test_listing_the_rest_moves_no_row(run: Run) -> None:
    import_run(run, newest_first=True)
    first = columns(run)
    import_run(run)
    run.refresh_from_db()
    after = columns(run)
    assert (run.is_partly_listed, run.listed_count) == (False, COUNT + 2)
    # The parents of the oldest rows are stored only now.
    for own_id, shown in first.items():
        assert after[own_id][1:] == shown[1:] and shown[0] in (None, after[own_id][0])
    assert run.checkpoints.get(parent__checkpoint_id=checkpoint_id(100), row=COUNT).lane == 1
    assert run.checkpoints.get(row=COUNT - 1).turn == -(-COUNT // 3)
    assert not run.checkpoints.filter(fingerprint="").exists()


def test_the_next_rows_are_listed_when_the_page_asks_for_them(run: Run, reader: Client) -> None:
    reader.get(run.get_absolute_url())
    oldest = reader.get(reverse("run-rows", args=[run.uid]), {"from": "50"}).content.decode()
    run.refresh_from_db()
    assert not run.is_partly_listed and checkpoint_id(50) in oldest
    page = reader.get(run.get_absolute_url()).content.decode()
    assert "listed so far" not in page and "location-changed from:body, load" not in page


def test_the_worker_lists_the_rest(run: Run) -> None:
    import_run(run, newest_first=True)
    complete_some()
    run.refresh_from_db()
    assert (run.is_partly_listed, run.listed_count) == (False, COUNT + 2)


def test_a_link_to_a_checkpoint_lists_all_at_once(run: Run, reader: Client) -> None:
    page = reader.get(run.get_absolute_url(), {"at": checkpoint_id(7)}).content.decode()
    run.refresh_from_db()
    assert not run.is_partly_listed and checkpoint_id(7) in page


def test_a_thread_that_vanishes_before_the_rest_is_listed_is_not_listed_again(
    db: None, database: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "threads.db"
    copy.write_bytes(database.read_bytes())
    location = open_location(copy)
    import_location(location)
    run = location.runs.select_related("location").get()
    import_run(run, newest_first=True)
    Database(copy, "DELETE FROM checkpoints").connection.close()
    complete_some()
    run.refresh_from_db()
    assert not run.is_partly_listed and {row.state for row in run.checkpoints.all()} == {"pruned"}


def test_a_run_that_was_deleted_meanwhile_is_not_listed(run: Run) -> None:
    Run.objects.filter(pk=run.pk).delete()
    assert not import_run(run).is_news and not Run.objects.exists()


@pytest.fixture
def every_thread_is_long(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(listing, "MIN_CHECKPOINTS", 1)
    yield


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.usefixtures("every_thread_is_long")
def test_the_rows_of_recorded_threads_are_those_of_the_complete_listing(version: str) -> None:
    with LangGraphStore(SqliteTables(RECORDED / f"{version}.db", ReadLimits()), []) as store:
        for run in store.runs().runs:
            assert_same(store.index(run.key, newest_first=True), store.index(run.key))


def assert_same(first: RunIndex, complete: RunIndex) -> None:
    """Fail unless the newest rows are those of the complete listing, but for their turns."""
    own = [one for one in complete.snapshots if one.run_key == complete.runs[0].key]
    assert first.outline == [(one.checkpoint_id, one.parent_id or "", one.branch) for one in own]
    for one in own:
        one.turn = 0
    assert first.snapshots == own
    assert (first.runs[0].head, first.runs[0].status) == (complete.runs[0].head, complete.runs[0].status)
