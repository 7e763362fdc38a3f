"""Stored copies of threads of a real PostgreSQL server: shown when the thread or the server is gone."""

from collections.abc import Callable
from typing import Any

from django.test import Client
from psycopg import Connection
from psycopg.types.json import Jsonb
from pytest_django import Settings

from tests.langgraph.conftest import opened
from tests.langgraph.copied import checkpoints_of, copied_ids, copy_all, star
from tests.langgraph.listing.test_stored_copies import KEY, TABS, detail
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_run
from viewer.models import Location
from viewer.records.bodies import body_of

Added = Callable[[], Location]
TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")


def test_a_named_thread_outlives_its_rows(added: Added, owner: Connection[Any], reader: Client) -> None:
    location = added()
    run = opened(location, "map-sub-done")
    star(run)
    copy_all()
    before = {row.pk: body_of(row) for row in checkpoints_of(run)}
    assert len(copied_ids(run)) == len(before) == 10
    pages = [(run.get_absolute_url(), {"at": run.head, "tab": tab}) for tab in TABS]
    shown = [detail(reader, *page) for page in pages]
    for table in TABLES:
        owner.execute(f"DELETE FROM {table} WHERE thread_id = 'map-sub-done'")
    import_location(location)
    rows = checkpoints_of(run)
    assert {row.pk: body_of(row) for row in rows} == before and all(row.is_pruned for row in rows)
    for page, once in zip(pages, shown, strict=True):
        after = detail(reader, *page)
        assert "It was deleted at its location." in after and after.split("</p>", 1)[1] == once


def test_a_named_thread_is_shown_while_its_server_cannot_be_reached(
    added: Added, settings: Settings, reader: Client
) -> None:
    location = added()
    run, other = opened(location, "appr-waiting"), opened(location, "appr-done")
    star(run)
    copy_all()
    settings.POSTGRESQL_LOCATIONS = {"support": "host=127.0.0.1 port=1 user=forkline_reader"}
    page = detail(reader, run.get_absolute_url(), {"at": run.head, "tab": "state"})
    assert "redacted copy of the checkpoint" in page and "could not be reached" in page
    page = detail(reader, other.get_absolute_url(), {"at": other.head, "tab": "state"})
    assert "This checkpoint cannot be read at its source" in page


def test_what_is_added_to_a_copied_thread_is_copied_without_its_secrets(
    added: Added, owner: Connection[Any]
) -> None:
    location = added()
    run = opened(location, "fan-failed")
    star(run)
    copy_all()
    count = len(copied_ids(run))
    newer = "1fffffff-ffff-6fff-bfff-ffffffffffff"
    checkpoint = {"v": 4, "id": newer, "channel_values": {"api_key": KEY, "note": f"with {KEY}"}}
    owner.execute(
        "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint,"
        " metadata) VALUES ('fan-failed', '', %s, %s, %s, %s)",
        (newer, run.head, Jsonb(checkpoint), Jsonb({"source": "loop", "step": 9, "token": KEY})),
    )
    owner.execute(
        "INSERT INTO checkpoint_writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type,"
        " blob) VALUES ('fan-failed', '', %s, 'task', 0, 'note', 'json', %s)",
        (newer, f'"{KEY}"'.encode()),
    )
    import_location(location)
    copy_all()
    assert len(copied_ids(run)) == count + 1
    owner.execute("DELETE FROM checkpoints WHERE thread_id = 'fan-failed'")
    import_run(run)
    (row,) = (row for row in checkpoints_of(run) if row.checkpoint_id == newer)
    assert KEY not in str(body_of(row)) and "with [redacted]" in str(body_of(row))
