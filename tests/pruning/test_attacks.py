"""Files and rows that change between the list and the deletion, and processes that are killed."""

import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.imported import imported_location
from tests.real_stores import copy_of, hashes_below
from viewer.host.locations import pruning
from viewer.host.locations.importing import import_location
from viewer.host.locations.pruning import (
    PrunePlan,
    delete_entries,
    fresh_plan,
    plan_prune,
    prune,
    recorded_in,
)
from viewer.host.locations.sources import address_of
from viewer.host_requests import PruneRefused, PruneRules
from viewer.models import Checkpoint, Location, StoredCopy
from viewer.models.audit import AuditEntry
from viewer.records.audit import Result
from viewer.records.bodies import stored_body
from viewer.stores.protocol import LocationReplaced, LocationUnreadable

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def plan(folder: Location) -> PrunePlan:
    return plan_prune(folder, PruneRules(days=0))


def rows_in(location: Location) -> list[tuple[object, ...]]:
    database = sqlite3.connect(location.path)
    try:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return database.execute("SELECT * FROM checkpoints ORDER BY rowid").fetchall()
    finally:
        database.close()


def test_a_link_in_place_of_a_file_is_left_alone(folder: Location, plan: PrunePlan, tmp_path: Path) -> None:
    victim, target = Path(folder.path) / plan.rows[0].source_key, tmp_path / "precious.json"
    victim.rename(target)
    victim.symlink_to(target)
    kept = delete_entries(address_of(folder), plan.entries, recorded_in(plan))
    assert [one.key for one in kept] == [plan.rows[0].source_key]
    assert target.exists() and victim.is_symlink()


def test_a_linked_folder_is_not_entered(folder: Location, plan: PrunePlan, tmp_path: Path) -> None:
    main, moved = Path(folder.path) / "main", tmp_path / "elsewhere"
    main.rename(moved)
    main.symlink_to(moved)
    before = hashes_below(moved)
    kept = delete_entries(
        address_of(folder), [one for one in plan.entries if one.key.startswith("main/")], recorded_in(plan)
    )
    assert kept and hashes_below(moved) == before


def test_a_file_that_was_replaced_by_an_equal_one_is_left_alone(folder: Location, plan: PrunePlan) -> None:
    victim = Path(folder.path) / plan.rows[0].source_key
    status = victim.stat()
    copy = victim.with_suffix(".copy")
    shutil.copy2(victim, copy)
    copy.rename(victim)
    os.utime(victim, ns=(status.st_atime_ns, status.st_mtime_ns))
    kept = delete_entries(address_of(folder), plan.entries[:1], recorded_in(plan))
    assert [one.reason.code for one in kept] == ["prune.changed"] and victim.exists()


def test_a_replaced_location_is_left_alone(folder: Location, plan: PrunePlan, tmp_path: Path) -> None:
    path, moved = Path(folder.path), tmp_path / "moved"
    path.rename(moved)
    shutil.copytree(moved, path)
    before = hashes_below(tmp_path)
    with pytest.raises(LocationReplaced):
        delete_entries(address_of(folder), plan.entries, recorded_in(plan))
    assert hashes_below(tmp_path) == before


@pytest.mark.parametrize(
    "key", ["../outside.json", "main/../../outside.json", "/etc/passwd.json", "main/x.txt"]
)
def test_a_key_that_leads_elsewhere_deletes_nothing(folder: Location, tmp_path: Path, key: str) -> None:
    from viewer.stores.protocol import Entry

    outside = tmp_path / "1.15.30" / "outside.json"
    outside.write_text("{}")
    kept = delete_entries(address_of(folder), [Entry(key, "1:1:1:1", 1)], lambda *_: True)
    assert [one.reason.code for one in kept] == ["prune.not_a_checkpoint"] and outside.exists()


def test_one_changed_row_keeps_all_rows(database: Location) -> None:
    plan = plan_prune(database, PruneRules(days=0))
    connection = sqlite3.connect(database.path)
    connection.execute("UPDATE checkpoints SET data = zeroblob(9) WHERE id = ?", [plan.rows[-1].source_key])
    connection.commit()
    connection.close()
    before = rows_in(database)
    with pytest.raises(LocationUnreadable):
        delete_entries(address_of(database), plan.entries, recorded_in(plan))
    assert rows_in(database) == before


@pytest.fixture
def rows(db: None, tmp_path: Path, settings: Any) -> Location:
    """A database with all columns that CrewAI has written so far."""
    settings.CHECKPOINT_ROOTS = [tmp_path]
    path = copy_of("1.14.1/cp.db", tmp_path)
    for column in ("parent_id TEXT", "branch TEXT NOT NULL DEFAULT 'main'"):
        change(path, f"ALTER TABLE checkpoints ADD COLUMN {column}")
    return imported_location(path)


def change(path: Path | str, statement: str, *values: object) -> None:
    """Run a statement on a file, as another program would."""
    connection = sqlite3.connect(path)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


def rewrite(location: Location, key: str) -> None:
    """Replace the data of a row by other data of the same type and size."""
    connection = sqlite3.connect(location.path)
    (data,) = connection.execute("SELECT data FROM checkpoints WHERE id = ?", [key]).fetchone()
    connection.close()
    changed = data.replace(b"research", b"researsh")
    assert changed != data
    change(location.path, "UPDATE checkpoints SET data = ? WHERE id = ?", changed, key)


@pytest.mark.parametrize("has_time", [True, False])
def test_a_row_that_was_rewritten_with_the_same_size_is_kept(rows: Location, *, has_time: bool) -> None:
    if not has_time:
        change(rows.path, "ALTER TABLE checkpoints DROP COLUMN created_at")
        import_location(rows)
    plan = plan_prune(rows, PruneRules(days=0))
    rewrite(rows, plan.rows[0].source_key)
    assert fresh_plan(rows, PruneRules(days=0)).digest == plan.digest, "No fingerprint shows the change."
    before = rows_in(rows)
    with pytest.raises(PruneRefused) as refused:
        prune(rows, PruneRules(days=0), plan.digest)
    assert refused.value.message.code == "prune.row_changed" and rows_in(rows) == before


@pytest.mark.parametrize("column", ["created_at", "parent_id", "branch"])
def test_a_row_with_another_value_in_a_column_is_kept(rows: Location, column: str) -> None:
    plan = plan_prune(rows, PruneRules(days=0))
    change(rows.path, f"UPDATE checkpoints SET {column} = 'other' WHERE id = ?", plan.rows[0].source_key)
    before = rows_in(rows)
    with pytest.raises(LocationUnreadable):
        delete_entries(address_of(rows), plan.entries, recorded_in(plan))
    assert rows_in(rows) == before


def test_a_changed_row_is_read_again_and_deleted_once_it_is_confirmed(rows: Location) -> None:
    plan = plan_prune(rows, PruneRules(days=0))
    key = plan.rows[0].source_key
    rewrite(rows, key)
    before = stored_body(Checkpoint.objects.get(source_key=key))
    with pytest.raises(PruneRefused):
        prune(rows, PruneRules(days=0), plan.digest)
    again = fresh_plan(rows, PruneRules(days=0))
    assert stored_body(Checkpoint.objects.get(source_key=key)) != before
    assert prune(rows, PruneRules(days=0), again.digest).count == len(plan.rows)


def test_rows_that_an_older_version_read_are_read_again(rows: Location) -> None:
    StoredCopy.objects.update(source_digest="")
    plan = fresh_plan(rows, PruneRules(days=0))
    assert plan.rows and prune(rows, PruneRules(days=0), plan.digest).count == len(plan.rows)


def test_a_table_with_a_trigger_is_left_alone(database: Location) -> None:
    plan = plan_prune(database, PruneRules(days=0))
    connection = sqlite3.connect(database.path)
    connection.executescript(
        "CREATE TABLE other (id TEXT); INSERT INTO other VALUES ('mine');"
        "CREATE TRIGGER t AFTER DELETE ON checkpoints BEGIN DELETE FROM other; END;"
    )
    connection.close()
    before = rows_in(database)
    with pytest.raises(LocationUnreadable):
        delete_entries(address_of(database), plan.entries, recorded_in(plan))
    assert rows_in(database) == before


KILLED = """
import os, signal, sqlite3, sys
from pathlib import Path
import django
django.setup()
from viewer.host.locations.pruning import delete_entries
from viewer.host.reading.location_reader import LocationAddress
from viewer.stores import Identity
from viewer.stores.protocol import Entry, ReadLimits
path, root, identity, *parts = sys.argv[1:]
entries = [Entry(key, mark, 1) for key, mark in zip(parts[::2], parts[1::2])]
left = [2]
def counted():
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
unlink, connect = os.unlink, sqlite3.connect
def killing_unlink(*given, **named):
    counted()
    unlink(*given, **named)
class Killing(sqlite3.Connection):
    def execute(self, statement, *given):
        if statement.startswith("DELETE"):
            counted()
        return super().execute(statement, *given)
os.unlink = killing_unlink
sqlite3.connect = lambda *given, **named: connect(*given, factory=Killing, **named)
address = LocationAddress(Path(path), ReadLimits(), [Path(root)], identity)
delete_entries(address, entries, lambda *_: True)
"""


def killed(location: Location, plan: PrunePlan, root: Path) -> None:
    """Delete in another process, which is killed at the second checkpoint."""
    entries = [part for one in plan.entries for part in (one.key, one.fingerprint)]
    command = [sys.executable, "-c", KILLED, location.path, str(root), location.identity, *entries]
    assert len(plan.entries) > 1
    ended = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
    assert ended.returncode == -signal.SIGKILL


def test_a_killed_process_leaves_whole_files_and_no_others(
    folder: Location, plan: PrunePlan, tmp_path: Path
) -> None:
    before = hashes_below(Path(folder.path))
    killed(folder, plan, tmp_path)
    assert hashes_below(Path(folder.path)) == {
        key: digest for key, digest in before.items() if key != plan.rows[0].source_key
    }


def test_a_killed_process_leaves_every_row(database: Location, tmp_path: Path) -> None:
    before = rows_in(database)
    killed(database, plan_prune(database, PruneRules(days=0)), tmp_path)
    assert rows_in(database) == before


def test_a_list_that_could_not_be_deleted_is_audited_as_such(
    folder: Location, plan: PrunePlan, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    def no_descriptors(*_arguments: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    settings.AUDIT = True
    monkeypatch.setattr(pruning, "delete_entries", no_descriptors)
    with pytest.raises(PruneRefused, match="Too many open files"):
        prune(folder, PruneRules(days=0), fresh_plan(folder, PruneRules(days=0)).digest)
    assert [one.result for one in AuditEntry.objects.order_by("pk")][-1] == Result.NOT_DONE
