"""LangGraph's threads are deleted at their source, whole or in part, from a list that was confirmed."""

import re
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from tests.engine_runs.graphs import PROJECT
from tests.imported import imported_location
from tests.real_stores import copy_of, hashes_below
from tests.terminal import Terminal
from viewer.host.jobs import thread_pruning
from viewer.host.jobs.thread_pruning import list_prunable, prune
from viewer.host.locations import completing
from viewer.host.locations.indexing import import_run
from viewer.host_requests import PruneRefused, PruneRules
from viewer.models import Annotation, AuditEntry, Checkpoint, Job, Location, Project, Run, StoredCopy
from viewer.records.bodies import body_of

pytestmark = pytest.mark.django_db
WHOLE = PruneRules(thread="map-sub-done", whole_threads=True)


@pytest.fixture
def threads(graph_python: Path, tmp_path: Path, settings: Settings) -> Location:
    """The threads of a recorded store, with a project whose code may run."""
    settings.CHECKPOINT_ROOTS = [tmp_path]
    location = imported_location(copy_of("langgraph/lg12.db", tmp_path))
    location.project = Project.objects.create(
        folder=str(PROJECT), interpreter=str(graph_python), confirmed_at=timezone.now()
    )
    location.save()
    return location


def change(location: Location, script: str) -> None:
    with closing(sqlite3.connect(location.path)) as connection:
        connection.executescript(script)


def contents(location: Location) -> dict[tuple[str, ...], list[Any]]:
    """The rows of each checkpoint, by thread, namespace and id."""
    found: dict[tuple[str, ...], list[Any]] = {}
    with closing(sqlite3.connect(location.path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for table in ("checkpoints", "writes"):
            for row in connection.execute(f"SELECT * FROM {table} ORDER BY rowid"):
                found.setdefault(row[:3], []).append(row)
    return found


def without(found: dict[tuple[str, ...], list[Any]], listed: list[str]) -> dict[tuple[str, ...], list[Any]]:
    return {key: rows for key, rows in found.items() if "/".join(part for part in key if part) not in listed}


def test_a_thread_is_deleted_whole_and_its_copies_can_be_read(threads: Location, terminal: Terminal) -> None:
    before, files = contents(threads), hashes_below(Path(threads.path).parent)
    rules = ("--thread", "map-sub-done", "--whole-threads")
    listed = terminal.document("prune", threads.path, *rules)
    assert hashes_below(Path(threads.path).parent) == files
    values = [row for key, rows in before.items() if key[0] == "map-sub-done" for row in rows]
    size = sum(len(value) for row in values for value in row if isinstance(value, bytes))
    assert listed["threads"] == [{"thread": "map-sub-done", "checkpoints": 10, "bytes": size}]
    assert listed["bytes"] == size and not listed["protected"]
    assert "VACUUM" in terminal.text("prune", threads.path, *rules)
    assert terminal.document("prune", threads.path, *rules, "--confirm", listed["digest"])["deleted"] == 10
    assert contents(threads) == without(before, listed["checkpoints"])
    gone = threads.checkpoints.filter(state=Checkpoint.State.PRUNED)
    assert sorted(gone.values_list("source_key", flat=True)) == sorted(listed["checkpoints"])
    assert all(body_of(row) for row in gone)


def test_a_person_keeps_the_newest_of_each_branch_and_no_copies(threads: Location, runner: Client) -> None:
    before, address = contents(threads), reverse("prune", args=[threads.uid])
    assert "Prune checkpoints" in runner.get(threads.get_absolute_url()).content.decode()
    html = runner.get(address, {"latest": "2", "thread": "fan-forked", "copies": "on"}).content.decode()
    form = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', html))
    form.pop("csrfmiddlewaretoken", None)
    keys = re.findall(r"<li>(fan-forked/[^<]+)</li>", html)
    assert keys and "VACUUM" in html and "Fork points" in html
    assert runner.post(address, {**form, "digest": "1" * 64}).status_code == 422
    assert contents(threads) == before
    said = runner.post(address, form, follow=True).content.decode()
    assert f"Deleted {len(keys)} checkpoint" in said
    assert contents(threads) == without(before, keys)
    left = [key for key in without(before, keys) if key[0] == "fan-forked"]
    parents = {row[3] for key in left for row in before[key] if row[2] == key[2]}
    heads = [key[2] for key in left if key[2] not in parents]
    assert len(heads) > 1, "Each branch has its newest."
    assert not StoredCopy.objects.with_body().exists()
    run = Run.objects.get(key="fan-forked")
    assert run.checkpoints.filter(state=Checkpoint.State.NO_COPY).count() in (0, len(keys))


def test_what_is_in_use_or_was_annotated_stays(threads: Location) -> None:
    run = Run.objects.get(location=threads, key="fan-failed")
    Annotation.objects.create(location_uid=threads.uid, run_key=run.key, name="why it failed")
    found = list_prunable(threads, PruneRules(days=1, whole_threads=True))
    assert found.protected == {"annotated": 3}
    assert sorted(one.name for one in found.threads) == sorted(
        threads.runs.top_level().exclude(key="fan-failed").values_list("key", flat=True)
    )
    Job.objects.create(kind=Job.Kind.FORK, location=threads, run=run)
    with pytest.raises(PruneRefused) as refused:
        list_prunable(threads, WHOLE)
    assert refused.value.message.code == "prune.job_unfinished"


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        (PruneRules(branch="main"), "prune.no_branches"),
        (PruneRules(latest=1, whole_threads=True), "prune.whole_or_latest"),
    ],
)
def test_rules_that_threads_do_not_have_are_refused(threads: Location, rules: PruneRules, code: str) -> None:
    with pytest.raises(PruneRefused) as refused:
        list_prunable(threads, rules)
    assert refused.value.message.code == code
    assert not list_prunable(threads, PruneRules(whole_threads=True)).rows


def test_a_project_that_may_not_run_deletes_nothing(threads: Location, terminal: Terminal) -> None:
    Project.objects.update(confirmed_at=None)
    refused = terminal.refused("prune", threads.path, "--days", "1", "--latest", "1")
    assert "permit its code" in refused["error"]


def grown(location: Location) -> None:
    change(
        location,
        "INSERT INTO writes SELECT thread_id, checkpoint_ns, checkpoint_id, 'other', task_path, idx, channel,"
        " type, value FROM writes WHERE thread_id = 'map-sub-done' LIMIT 1",
    )


def replaced(location: Location) -> None:
    change(
        location,
        "INSERT OR REPLACE INTO checkpoints SELECT * FROM checkpoints WHERE thread_id = 'map-sub-done'",
    )


def orphaned(location: Location) -> None:
    """Store writes before their checkpoint, as a run does."""
    change(
        location,
        "INSERT INTO writes SELECT thread_id, checkpoint_ns, 'later', task_id, task_path, idx, channel,"
        " type, value FROM writes WHERE thread_id = 'map-sub-done' LIMIT 1",
    )


def triggering(location: Location) -> None:
    change(
        location,
        "CREATE TRIGGER t AFTER DELETE ON WRITES BEGIN DELETE FROM writes WHERE thread_id = 'appr-done'; END",
    )


def caseless(location: Location) -> None:
    """Make the engine's own statement delete another thread as well."""
    change(
        location,
        "ALTER TABLE writes RENAME TO w; CREATE TABLE writes (thread_id TEXT COLLATE NOCASE, checkpoint_ns,"
        " checkpoint_id, task_id, task_path, idx, channel, type, value);"
        "INSERT INTO writes SELECT * FROM w; DROP TABLE w;"
        "INSERT INTO writes SELECT upper(thread_id), checkpoint_ns, checkpoint_id, task_id, task_path, idx,"
        " channel, type, value FROM writes WHERE thread_id = 'map-sub-done' LIMIT 1",
    )


@pytest.mark.parametrize(
    ("attack", "code", "is_before"),
    [
        (grown, "prune.plan_changed", False),
        (replaced, "prune.plan_changed", False),
        (orphaned, "prune.plan_changed", False),
        (triggering, "langgraph.no_plain_tables", True),
        (caseless, "langgraph.prune_differs", True),
    ],
)
def test_nothing_is_deleted_if_more_would_change(
    threads: Location, attack: Callable[[Location], None], code: str, is_before: bool
) -> None:
    if is_before:
        attack(threads)
    digest = list_prunable(threads, WHOLE).digest
    if not is_before:
        attack(threads)
    before = contents(threads)
    with pytest.raises(PruneRefused) as refused:
        prune(threads, WHOLE, digest)
    assert refused.value.message.code == code and contents(threads) == before
    assert not threads.checkpoints.filter(state=Checkpoint.State.PRUNED).exists()


@pytest.mark.parametrize(
    ("what", "code"), [("annotation", "prune.plan_changed"), ("job", "prune.job_unfinished")]
)
def test_what_happens_while_copies_are_stored_is_noticed(
    threads: Location, monkeypatch: pytest.MonkeyPatch, what: str, code: str
) -> None:
    run = Run.objects.get(location=threads, key="map-sub-done")

    def copied(plan: thread_pruning.ThreadPlan) -> None:
        if what == "job":
            Job.objects.create(kind=Job.Kind.FORK, location=threads, run=run)
        else:
            Annotation.objects.create(location_uid=threads.uid, run_key=run.key, name="why it failed")

    digest, before = list_prunable(threads, WHOLE).digest, contents(threads)
    monkeypatch.setattr(thread_pruning, "_copy", copied)
    with pytest.raises(PruneRefused) as refused:
        prune(threads, WHOLE, digest)
    assert refused.value.message.code == code and contents(threads) == before


def test_a_copy_of_earlier_contents_does_not_stand_for_what_cannot_be_read(
    threads: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, before = list_prunable(threads, WHOLE).digest, contents(threads)
    import_run(Run.objects.get(location=threads, key="map-sub-done"))
    completing.copy_checkpoints(threads, list(threads.checkpoints.all()))
    assert StoredCopy.objects.update(fingerprint="of earlier contents") >= 10
    monkeypatch.setattr(completing, "_store_copies", lambda _location, _due: False)
    with pytest.raises(PruneRefused) as refused:
        prune(threads, WHOLE, digest)
    assert refused.value.message.code == "prune.not_copied" and contents(threads) == before


def test_a_newer_format_may_need_all_its_ancestors(threads: Location, graph_python: Path) -> None:
    rules = PruneRules(latest=1, thread="map-sub-done")
    assert list_prunable(threads, rules).rows
    script = """
import sqlite3, sys, ormsgpack
with sqlite3.connect(sys.argv[1]) as file:
    for row, body in file.execute("SELECT rowid, checkpoint FROM checkpoints").fetchall():
        found = ormsgpack.unpackb(body, ext_hook=ormsgpack.Ext, option=ormsgpack.OPT_NON_STR_KEYS)
        packed = ormsgpack.packb({**found, "v": 5}, option=ormsgpack.OPT_NON_STR_KEYS)
        file.execute("UPDATE checkpoints SET checkpoint = ? WHERE rowid = ?", (packed, row))
"""
    subprocess.run([graph_python, "-c", script, threads.path], check=True)
    assert not list_prunable(threads, rules).rows


def test_threads_that_pages_cannot_name_stay(threads: Location) -> None:
    key = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    for name in (key, "new\nline"):
        with closing(sqlite3.connect(threads.path)) as connection, connection:
            connection.execute("UPDATE checkpoints SET thread_id = ? WHERE thread_id = 'appr-done'", [name])
            connection.execute("UPDATE writes SET thread_id = ? WHERE thread_id = 'appr-done'", [name])
            copied = "INSERT INTO checkpoints SELECT 'appr-done', checkpoint_ns, checkpoint_id, NULL, type,"
            connection.execute(f"{copied} checkpoint, metadata FROM checkpoints WHERE thread_id = ?", [name])
    found = list_prunable(threads, PruneRules(days=1, whole_threads=True))
    assert found.protected == {"not_listed": 20}
    assert not any(key in text for text in (*found.rows, *(one.name for one in found.threads)))
    assert AuditEntry.objects.count() == 0
