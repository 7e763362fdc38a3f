"""Threads of real databases: found, indexed when they are opened, and read one checkpoint at a time."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from tests.langgraph.conftest import RECORDED, VERSIONS, opened
from viewer.host.locations.importing import import_location
from viewer.models import Checkpoint, Job, Location, Run, StoredCopy
from viewer.records.bodies import stored_contents

pytestmark = pytest.mark.postgresql

Threads = Callable[[str], Location]
# The versions differ in what they write when they replay.
WAITING = {"appr-done", "appr-waiting", "map-sub-waiting"}
FORKED = {"lg02_76": 11, "lg06": 9, "lg12": 12}


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 digest of each file in a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


# Thread: status, checkpoints, branches, checkpoints of subgraphs.
EXPECTED = {
    "fan-failed": ("failed", 3, 1, 0),
    "fan-recovered": ("completed", 6, 1, 0),
    "fan-forked": ("unfinished", 11, 4, 0),
    "fan-breakpoint": ("unfinished", 4, 1, 0),
    "appr-waiting": ("waiting", 3, 1, 0),
    "appr-done": ("waiting", 10, 1, 0),
    "appr-two-answers": ("completed", 7, 2, 0),
    "map-sub-waiting": ("waiting", 5, 1, 3),
    "map-sub-done": ("completed", 6, 1, 4),
}

# With the last node of a thread of the first versions, only the graph knows whether another follows.
ENDS_UNKNOWN = {("lg02_76", thread) for thread in ("fan-recovered", "appr-two-answers", "map-sub-done")}


@pytest.mark.parametrize("version", VERSIONS)
def test_adding_a_database_lists_its_threads_and_stores_no_checkpoint(threads: Threads, version: str) -> None:
    location = threads(version)
    assert (location.engine, location.store_kind) == ("langgraph", "sqlite")
    listed = {run.key: (run.status, run.is_forked) for run in location.runs.all()}
    assert listed == {
        # Only its checkpoints say that a thread has completed.
        thread: (status.removeprefix("completed"), branches > 1)
        for thread, (status, _count, branches, _inner) in EXPECTED.items()
    }
    assert not Checkpoint.objects.exists() and not location.problems.exists()


@pytest.mark.parametrize("version", VERSIONS)
def test_opening_a_thread_indexes_its_checkpoints_without_bodies(threads: Threads, version: str) -> None:
    location = threads(version)
    for thread, (known, usual, branches, inner) in EXPECTED.items():
        run = opened(location, thread)
        count = FORKED[version] if thread == "fan-forked" else usual
        status = "" if (version, thread) in ENDS_UNKNOWN else known
        assert (run.status, run.checkpoint_count, run.branch_count) == (status, count, branches)
        called = run.called_runs.all()
        assert sum(one.checkpoint_count for one in called) == inner
        assert {one.called_from for one in called} <= set(
            run.checkpoints.values_list("checkpoint_id", flat=True)
        )
    assert not StoredCopy.objects.exists()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_checkpoint_of_every_thread_is_read_from_its_source(threads: Threads, version: str) -> None:
    location = threads(version)
    for thread in EXPECTED:
        opened(location, thread)
    rows = Checkpoint.objects.select_related("location")
    assert len(rows) == FORKED[version] + 51
    for row in rows:
        contents = stored_contents(row)
        assert (contents.kind, contents.id, contents.engine) == ("graph", row.checkpoint_id, "langgraph")


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_show_the_nodes_that_ran_and_those_that_wait(threads: Threads, version: str) -> None:
    location = threads(version)
    recovered = opened(location, "fan-recovered").checkpoints.order_by("row")
    ran = [[name for name, _status in row.units] for row in recovered]
    assert ran == [[], [], ["make_plan"], ["research_a", "research_b", "research_c"], ["merge"], ["publish"]]
    assert [row.step for row in recovered] == [-1, 0, 1, 2, 3, 4]
    end = "loop" if (version, "fan-recovered") in ENDS_UNKNOWN else "loop_ended"
    assert [row.trigger for row in recovered] == ["input", "loop", "loop", "loop", "loop", end]
    failed = opened(location, "fan-failed").checkpoints.latest("row")
    assert [status for _name, status in failed.units] == ["done", "failed"]
    waiting = opened(location, "appr-waiting").checkpoints.latest("row")
    assert (waiting.trigger, [status for _name, status in waiting.units]) == (
        "loop_waiting",
        ["done", "waiting"],
    )


def test_a_new_turn_is_no_branch(threads: Threads) -> None:
    run = opened(threads("lg12"), "appr-done")
    rows = list(run.checkpoints.order_by("row"))
    assert {row.branch for row in rows} == {"main"}
    assert [row.turn for row in rows] == [1] * 7 + [2] * 3


def test_branch_names_stay_when_a_thread_is_indexed_again(threads: Threads) -> None:
    location = threads("lg12")
    names = set(opened(location, "fan-forked").checkpoints.values_list("branch", flat=True))
    Run.objects.all().delete()
    Location.objects.update(listed_fingerprint="")
    location.refresh_from_db()
    import_location(location)
    again = set(opened(location, "fan-forked").checkpoints.values_list("branch", flat=True))
    assert names == again == {"main", "fork-c543", "fork-f045", "fork-69f2"}


def test_every_tab_is_shown(threads: Threads, reader: Client) -> None:
    location = threads("lg12")
    part = {"HX-Request": "true", "HX-Target": "detail"}
    for thread in ("fan-failed", "appr-done", "map-sub-waiting"):
        run = opened(location, thread)
        for row in run.checkpoints.order_by("-row")[:3]:
            for tab in ("state", "messages", "writes", "next", "subgraphs", "metadata", "raw"):
                selected = {"at": row.checkpoint_id, "tab": tab}
                headers = {} if tab == "state" else part
                shown = reader.get(run.get_absolute_url(), selected, headers=headers)
                assert shown.status_code == 200, (thread, tab)


def test_the_source_and_its_folder_stay_as_they_are(threads: Threads, tmp_path: Path) -> None:
    location = threads("lg12")
    before = digests(tmp_path)
    import_location(location)
    for row in opened(location, "map-sub-waiting").checkpoints.all():
        stored_contents(row)
    assert digests(tmp_path) == before == {"lg12.db": digests(RECORDED)["lg12.db"]}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("only=waiting", WAITING),
        ("only=failed", {"fan-failed"}),
        ("only=forked", {"appr-two-answers", "fan-forked"}),
        ("q=SUB-", {"map-sub-done", "map-sub-waiting"}),
    ],
)
def test_threads_are_filtered_and_found_by_their_ids(
    threads: Threads, reader: Client, query: str, expected: set[str]
) -> None:
    location = threads("lg12")
    page = reader.get(f"{location.get_absolute_url()}?{query}").content.decode()
    assert {run.key for run in location.runs.all() if f'"{run.get_absolute_url()}"' in page} == expected


def test_a_thread_that_another_program_writes_is_live(threads: Threads, reader: Client) -> None:
    location = threads("lg12")
    address = f"{location.get_absolute_url()}?only=live"
    assert not reader.get(address).context["runs"].rows
    location.runs.update(last_at=timezone.now())
    rows = {row.run.key: row.status_label for row in reader.get(address).context["runs"].rows}
    # Those that wait or have failed are not live. The ends of the others are not known yet.
    assert rows == dict.fromkeys(sorted(set(EXPECTED) - WAITING - {"fan-failed"}), "live")
    Run.objects.filter(key="fan-recovered").update(status=Run.Status.COMPLETED)
    location.runs.filter(key="fan-breakpoint").update(last_at=timezone.now() - timedelta(minutes=2))
    left = {row.run.key for row in reader.get(address).context["runs"].rows}
    assert set(rows) - left == {"fan-recovered", "fan-breakpoint"}


def test_a_thread_that_our_job_has_just_written_is_not_live(threads: Threads, reader: Client) -> None:
    location = threads("lg12")
    run = opened(location, "fan-breakpoint")
    location.runs.update(last_at=timezone.now())
    job = Job.objects.create(kind="resume", location=location, run=run, branch="main", status="running")
    rows = reader.get(location.get_absolute_url(), {"only": "live"}).context["runs"].rows
    assert {row.run.key: row.status for row in rows}["fan-breakpoint"] == "running"
    job.end(Job.Status.CANCELLED)
    rows = reader.get(location.get_absolute_url(), {"only": "live"}).context["runs"].rows
    assert "fan-breakpoint" not in {row.run.key for row in rows}


def test_the_newest_thread_is_listed_first(threads: Threads, reader: Client) -> None:
    location = threads("lg12")
    page = reader.get(location.get_absolute_url()).content.decode()
    listed = [page.index(f'"{run.get_absolute_url()}"') for run in location.runs.order_by("-last_at")]
    assert len(listed) == len(EXPECTED) and listed == sorted(listed)
