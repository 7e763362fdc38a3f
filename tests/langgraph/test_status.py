"""The status of a thread: what its own newest checkpoint says, whatever became of its forks."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from tests.langgraph.conftest import copied, opened
from viewer.engines.langgraph import super_steps
from viewer.engines.langgraph.threads.rows import IndexedRow, Indexer, metadata_of
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_run, import_scratch
from viewer.models import Location, Run
from viewer.redaction.known_secrets import NONE_KNOWN

pytestmark = pytest.mark.postgresql

JOB = "5e0a4c7c-6a5d-4d07-8f3c-8f3d7f0f5f10"
HEAD = "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 'appr-waiting'"
# The checkpoints with which an approved thread went on, as those of the thread that waits.
CONTINUED = """
    UPDATE checkpoints SET thread_id = 'appr-waiting',
        parent_checkpoint_id =
            CASE json_extract(metadata, '$.step') WHEN 2 THEN ? ELSE parent_checkpoint_id END
    WHERE thread_id = 'appr-done' AND json_extract(metadata, '$.step') BETWEEN 2 AND 5
"""


def scratch_store(folder: Path) -> Path:
    """A store in which a copy of the waiting thread continued to its end."""
    folder.mkdir()
    store = copied("lg12", folder)
    with closing(sqlite3.connect(store)) as database, database:
        database.execute(CONTINUED, database.execute(HEAD).fetchone())
    return store


def test_a_thread_still_waits_when_its_fork_has_ended(
    threads: Callable[[str], Location], tmp_path: Path
) -> None:
    location = threads("lg12")
    run = opened(location, "appr-waiting")
    assert run.status == "waiting"
    assert import_scratch(run, scratch_store(tmp_path / "scratch"), JOB, "try").added
    run.refresh_from_db()
    assert run.checkpoints.get(branch="try", is_branch_head=True).trigger == "loop_ended"
    assert run.status == "waiting"
    import_location(location)
    import_run(run)
    assert Run.objects.get(pk=run.pk).status == "waiting"


@pytest.mark.parametrize(("reader", "trigger"), [("", "loop"), ("review", "loop_ended")])
def test_a_single_checkpoint_of_the_first_versions_ends_only_if_that_is_known(
    reader: str, trigger: str
) -> None:
    """Its nodes trigger each other by channels of their own names, and ``review`` has read this one."""
    seen = {"draft": {"start:draft": "2.0.1"}, **({reader: {"draft": "3.0.4"}} if reader else {})}
    checkpoint = {
        "channel_values": {"topic": "cats", "draft": "draft"},
        "channel_versions": {"topic": "2.0.3", "draft": "3.0.4", "start:draft": "3.0.5"},
        "versions_seen": seen,
    }
    row = IndexedRow(
        "", "1f1e6d03-e137-6cf7-8001-a9540ae4fea6", None, 1, metadata_of(b'{"source": "loop"}'), ""
    )
    (snapshot,) = Indexer("t", NONE_KNOWN, lambda _row: checkpoint).snapshots([row])
    assert snapshot.trigger == trigger


def test_the_inbox_lists_a_thread_that_waits_without_a_job(
    threads: Callable[[str], Location], reader: Client
) -> None:
    run = opened(threads("lg12"), "appr-waiting")
    for name in ("inbox", "inbox-waiting"):
        page = reader.get(reverse(name)).content.decode()
        assert run.get_absolute_url() in page and "Runs that wait" in page
    Run.objects.update(status="completed")
    assert "No pending questions" in reader.get(reverse("inbox")).content.decode()


def test_the_next_tab_names_what_ran_after_an_earlier_checkpoint(
    threads: Callable[[str], Location], reader: Client
) -> None:
    _first, second, *_others, last = opened(threads("lg12"), "fan-recovered").checkpoints.order_by("row")
    page = reader.get(f"{second.get_absolute_url()}&tab=next").content.decode()
    assert "The graph continued with:" in page and ">make_plan<" in page
    ended = reader.get(f"{last.get_absolute_url()}&tab=next").content.decode()
    assert 'id="tab-next"' not in ended and "continued with" not in ended


def test_a_failure_is_said_once_above_the_writes(threads: Callable[[str], Location], reader: Client) -> None:
    head = opened(threads("lg12"), "fan-failed").checkpoints.latest("row")
    for tab in ("state", "writes", "next"):
        page = reader.get(f"{head.get_absolute_url()}&tab={tab}").content.decode()
        assert page.count("notice-bad") == 1, tab


# The thread as if it had stopped at a breakpoint after its first node.
STOPPED = """
    DELETE FROM checkpoints WHERE thread_id = 'fan-recovered' AND json_extract(metadata, '$.step') > 1
"""
LEFT = """
    DELETE FROM writes WHERE thread_id = 'fan-recovered' AND checkpoint_id = (
        SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 'fan-recovered')
"""


def test_other_threads_say_what_follows_at_a_breakpoint_of_the_first_versions(
    tmp_path: Path, db: None
) -> None:
    store = copied("lg02_76", tmp_path)
    with closing(sqlite3.connect(store)) as database, database:
        database.execute(STOPPED)
        database.execute(LEFT)
    location = open_location(store)
    import_location(location)
    head = opened(location, "fan-recovered").checkpoints.latest("row")
    assert head.trigger == "loop_unfinished"
    assert [unit for unit in head.units if unit[1] == "next"] == [
        [f"research_{name}", "next"] for name in "abc"
    ]


def test_the_versions_that_an_interrupt_saw_are_no_node_that_follows() -> None:
    checkpoint = {
        "channel_values": {"draft": "draft"},
        "channel_versions": {"draft": 3},
        "versions_seen": {"draft": {"start:draft": 2}},
    }
    seen = {"draft": {"start:draft": 2}, "review": {"draft": 3}, "__interrupt__": {"draft": 3}}
    assert super_steps.next_by_others(checkpoint, [{"versions_seen": seen}]) == ["review"]


ALL_BUT_ONE = "DELETE FROM checkpoints WHERE thread_id <> 'fan-recovered'"


def test_a_thread_of_the_first_versions_that_no_other_passed_is_not_said_to_have_ended(
    tmp_path: Path, db: None
) -> None:
    store = copied("lg02_76", tmp_path)
    with closing(sqlite3.connect(store)) as database, database:
        for change in (STOPPED, LEFT, ALL_BUT_ONE):
            database.execute(change)
    location = open_location(store)
    import_location(location)
    run = opened(location, "fan-recovered")
    assert (run.checkpoints.latest("row").trigger, run.status) == ("loop", "")


@pytest.mark.parametrize("version", [str, int, lambda number: f"{number:032}.0.{7 - number}"])
def test_versions_of_channels_are_compared_as_numbers(version: Callable[[int], object]) -> None:
    """``draft`` was read, and wrote the newest channel but for ``review``, which no node has read."""
    seen = {"draft": {"start:draft": version(8)}, "review": {"draft": version(9)}}
    checkpoint = {
        "channel_values": {"draft": "draft", "review": "review"},
        "channel_versions": {"draft": version(9), "review": version(10)},
        "versions_seen": seen,
    }
    assert not super_steps.is_last(checkpoint)
    seen["publish"] = {"review": version(10)}
    assert super_steps.is_last(checkpoint)
