"""``PostgresSaver.prune`` deletes checkpoints while their page is open, and after their fork was planned."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.engine_runs.graphs import PROJECT, run_program
from tests.langgraph.launching.test_running import address, worker
from tests.langgraph.listing.test_stored_copies import detail
from tests.langgraph.postgresql.test_running import DOGS, FAN, Database, Made, made, rows
from tests.terminal import Terminal
from tests.waiting import wait_until
from viewer.launching.start import move_start
from viewer.models import Job, Location

__all__ = ["made", "worker"]
LATER = ("--at", "2099-01-01T00:00:00")
# With these, deleting a checkpoint deletes rows of other tables, or leaves its own.
ATTACKS = {
    "CREATE TABLE notes (thread text, ns text, id text,"
    " FOREIGN KEY (thread, ns, id) REFERENCES checkpoints ON DELETE CASCADE)": "DROP TABLE notes",
    "CREATE RULE stay AS ON DELETE TO checkpoint_writes DO INSTEAD NOTHING": (
        "DROP RULE stay ON checkpoint_writes"
    ),
}


@pytest.fixture
def database(made: Made) -> Database:
    return made(("fan", "fan"), ("fan", "other"))


@pytest.fixture
def threads(database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Location:
    """The location of the threads, which the worker's settings name as well."""
    monkeypatch.setenv("POSTGRESQL_LOCATIONS", f"support={settings.POSTGRESQL_LOCATIONS['support']}")
    return database.location()


def prune(database: Database, strategy: str = "keep_latest") -> None:
    run_program(database.engine, database.folder, PROJECT / "prune.py", database.store, strategy, "fan")


def change(database: Database, statement: str) -> None:
    with database.server.connected(database.name) as connection:
        connection.execute(statement)


@pytest.mark.parametrize(("strategy", "left"), [("keep_latest", 1), ("delete", 0)])
def test_an_open_page_says_that_its_checkpoint_was_deleted(
    database: Database, threads: Location, reader: Client, strategy: str, left: int
) -> None:
    before = rows(threads, "fan")
    old, head = before[2], before[-1]
    assert "topic" in detail(reader, old.get_absolute_url(), {"tab": "state"})
    prune(database, strategy)
    # The page asks again before anything has listed the thread.
    for tab in ("state", "metadata", "raw", "tasks"):
        assert (
            reader.get(old.run.get_absolute_url(), {"at": old.checkpoint_id, "tab": tab}).status_code == 200
        )
    run = head.run
    listed = [row for row in rows(threads, "fan") if not row.is_pruned] if left else []
    assert [row.checkpoint_id for row in listed] == ([head.checkpoint_id] if left else [])
    page = detail(reader, run.get_absolute_url(), {"at": head.checkpoint_id, "tab": "state"})
    assert ("end on cats" in page) == bool(left)
    assert [row.checkpoint_id for row in rows(threads, "other")]


@pytest.mark.parametrize("strategy", ["keep_latest", "delete"])
def test_a_fork_of_a_checkpoint_that_was_pruned_after_its_plan_runs_nothing(
    database: Database, threads: Location, worker: None, terminal: Terminal, strategy: str
) -> None:
    start = address(rows(threads, "fan")[2])
    job = Job.objects.get(pk=terminal.document("fork", start, *FAN, *DOGS, *LATER)["job"])
    prune(database, strategy)
    before = database.rows()
    assert move_start(job, None)
    wait_until(lambda: Job.objects.get(pk=job.pk).has_ended)
    job.refresh_from_db()
    assert job.status == Job.Status.FAILED and job.error is not None
    assert database.ran() == [] and database.rows() == before


def test_a_fork_of_the_head_that_prune_kept_runs(
    database: Database, threads: Location, worker: None, terminal: Terminal
) -> None:
    head = address(rows(threads, "fan")[-1])
    again = ("--branch", "again", "--as-node", "start", "--state", '{"topic": "dogs"}')
    job = Job.objects.get(pk=terminal.document("fork", head, *FAN, *again, *LATER)["job"])
    prune(database)
    assert move_start(job, None)
    wait_until(lambda: Job.objects.get(pk=job.pk).has_ended)
    job.refresh_from_db()
    assert job.status == Job.Status.SUCCEEDED, job.error
    assert database.ran() == ["end", "left", "right"]


@pytest.mark.parametrize(
    ("rules", "strategy"), [(("--latest", "1"), "keep_latest"), (("--whole-threads",), "delete")]
)
def test_forkline_deletes_what_the_engine_would_and_no_other_row(
    database: Database,
    threads: Location,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    rules: tuple[str, ...],
    strategy: str,
) -> None:
    later = timezone.now() + timedelta(minutes=2)
    monkeypatch.setattr("viewer.host.jobs.thread_pruning.timezone.now", lambda: later)
    before, rules = database.rows(), (*rules, "--thread", "other")
    listed = terminal.document("prune", threads.path, *rules)
    assert database.rows() == before and listed["bytes"] > 0
    others = database.rows(without="other")
    for attack, undo in ATTACKS.items():
        change(database, attack)
        refused = terminal.refused("prune", threads.path, *rules, "--confirm", listed["digest"])
        assert "no plain tables" in refused["error"] and database.rows() == before
        change(database, undo)
    done = terminal.document("prune", threads.path, *rules, "--confirm", listed["digest"])
    assert done["deleted"] == len(listed["checkpoints"]) > 0
    assert database.rows(without="other") == others
    prune(database, strategy)
    ours, theirs = (Counter(table for table, _row in database.rows(one)) for one in ("fan", "other"))
    assert ours == theirs


def test_a_checkpoint_that_is_committed_before_the_lock_is_seen(
    database: Database, threads: Location, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(database, f"ALTER DATABASE {database.name} SET default_transaction_isolation = 'repeatable read'")
    later = timezone.now() + timedelta(minutes=2)
    monkeypatch.setattr("viewer.host.jobs.thread_pruning.timezone.now", lambda: later)
    rules = ("--whole-threads", "--thread", "other")
    listed = terminal.document("prune", threads.path, *rules)
    added = (
        "INSERT INTO checkpoints SELECT thread_id, checkpoint_ns, checkpoint_id || 'f', checkpoint_id, type,"
        " checkpoint, metadata FROM checkpoints WHERE thread_id = 'other' ORDER BY 3 DESC LIMIT 1"
    )
    with database.server.connected(database.name) as run, ThreadPoolExecutor() as pool:
        run.execute("BEGIN")
        run.execute(added)

        def commit_once_deletion_waits() -> None:
            with database.server.connected(database.name) as other:
                waiting = "SELECT FROM pg_locks WHERE NOT granted"
                wait_until(lambda: other.execute(waiting).fetchone() is not None)
            run.execute("COMMIT")

        committed = pool.submit(commit_once_deletion_waits)
        refused = terminal.refused("prune", threads.path, *rules, "--confirm", listed["digest"])
        committed.result()
    assert "changed" in refused["error"]
    left = [row for table, row in database.rows() if table == "checkpoints" and row.startswith("(other,")]
    assert len(left) == len(listed["checkpoints"]) + 1
