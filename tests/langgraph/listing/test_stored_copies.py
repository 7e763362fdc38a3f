"""Stored copies of threads that people forked or annotated: which there are, and what pages show of them."""

from collections.abc import Callable
from pathlib import Path

import ormsgpack
import pytest
from django.test import Client
from pytest_django import Settings

from tests.imported import imported_location, observe_once
from tests.langgraph.conftest import VERSIONS, opened
from tests.langgraph.copied import checkpoints_of, copied_ids, copied_thread, copy_all, star, written_thread
from tests.langgraph.databases import Database, checkpoint_id, packed
from viewer.host.jobs.retention import sizes
from viewer.host.locations import completing
from viewer.host.locations.completing import complete_some
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_run
from viewer.host.locations.pruning import fresh_plan, prune
from viewer.host_requests import PruneRules
from viewer.models import (
    Annotation,
    Checkpoint,
    Job,
    Location,
    Project,
    StoredCopy,
)
from viewer.records.annotations import AnnotatedObject, annotate
from viewer.records.bodies import bodies_of, body_of

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
Threads = Callable[[str], Location]
KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
PASSWORD = "correct-horse-battery"
# No rule recognises it as a secret.
VALUE = "blue whale (north)"
TABS = ("state", "messages", "writes", "next", "subgraphs", "metadata", "raw")


@pytest.mark.parametrize("version", VERSIONS)
def test_only_a_thread_that_somebody_wrote_about_is_copied(threads: Threads, version: str) -> None:
    location = threads(version)
    run, other = opened(location, "map-sub-done"), opened(location, "appr-done")
    copy_all()
    assert not StoredCopy.objects.exists()
    star(run)
    copy_all()
    assert copied_ids(run) == {row.checkpoint_id for row in checkpoints_of(run)}
    assert len(copied_ids(run)) == 10
    assert not copied_ids(other)


@pytest.mark.parametrize("about", ["branch", "checkpoint", "checkpoint of a subgraph", "fork"])
def test_every_way_of_choosing_a_thread_copies_it_whole(threads: Threads, about: str) -> None:
    location = threads("lg12")
    run = opened(location, "map-sub-done")
    row = run.checkpoints.first()
    assert row is not None
    if about == "branch":
        annotate(AnnotatedObject(run, "main"), None, name="good answers")
    elif about == "checkpoint":
        annotate(AnnotatedObject(run, checkpoint_id=row.checkpoint_id), None, labels=["final"])
    elif about == "fork":
        Job.objects.create(kind=Job.Kind.FORK, location=location, run=run, checkpoint=row)
    else:
        called = run.called_runs.all()[0]
        annotate(AnnotatedObject(called, checkpoint_id=called.head), None, note="Here.")
    copy_all()
    assert len(copied_ids(run)) == 10


def test_a_thread_that_grows_is_copied_as_it_grows(tmp_path: Path) -> None:
    database, run = copied_thread(tmp_path, 3)
    location = run.location
    assert copied_ids(run) == {checkpoint_id(number) for number in range(3)}
    database.write(2, -3, "__interrupt__", ormsgpack.packb("Send it?"))
    import_location(location)
    copy_all()
    database.connection.close()
    database.path.unlink()
    (waiting,) = (one for one in checkpoints_of(run) if one.checkpoint_id == checkpoint_id(2))
    assert body_of(waiting)["writes"][0]["value"] == "Send it?"


def test_new_checkpoints_of_a_copied_thread_are_copied(tmp_path: Path) -> None:
    database, run = copied_thread(tmp_path, 2)
    database.add(2, packed({"value": 2}))
    observe_once()
    copy_all()
    assert copied_ids(run) == {checkpoint_id(number) for number in range(3)}


def test_copying_continues_where_another_process_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completing, "MAX_SLICE", 2)
    run = opened(imported_location(written_thread(tmp_path, 7).path), "t")
    star(run)
    assert complete_some() and len(copied_ids(run)) == 2
    first = dict(StoredCopy.objects.values_list("pk", "data"))
    completing._retry_at.clear()
    copy_all()
    assert len(copied_ids(run)) == 7
    assert first.items() <= dict(StoredCopy.objects.values_list("pk", "data")).items()
    assert not complete_some()


def test_at_the_limit_the_lineage_of_what_was_annotated_comes_first(
    tmp_path: Path, settings: Settings, reader: Client
) -> None:
    settings.COPIES_MAX_CHECKPOINTS = 4
    database = written_thread(tmp_path, 9)
    run = opened(imported_location(database.path), "t")
    star(run, checkpoint=checkpoint_id(2))
    copy_all()
    assert copied_ids(run) == {checkpoint_id(number) for number in (0, 1, 2, 8)}
    page = reader.get(run.get_absolute_url()).content.decode()
    assert "called runs included: 4 of 9" in page
    settings.COPIES_MAX_CHECKPOINTS = 100
    copy_all()
    assert len(copied_ids(run)) == 9
    assert "called runs included" not in reader.get(run.get_absolute_url()).content.decode()


def test_a_checkpoint_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    database = written_thread(tmp_path, 2)
    database.add(2, b"\xc1 no msgpack")
    run = opened(imported_location(database.path), "t")
    star(run)
    copy_all()
    assert copied_ids(run) == {checkpoint_id(0), checkpoint_id(1)}


def test_the_source_is_shown_for_as_long_as_it_is_there(tmp_path: Path, reader: Client) -> None:
    database, run = copied_thread(tmp_path, 1)
    location = run.location
    database.connection.execute("UPDATE checkpoints SET checkpoint = ?", [packed({"value": "changed"})])
    at = {"at": checkpoint_id(0), "tab": "state"}
    page = reader.get(run.get_absolute_url(), at).content.decode()
    assert "changed" in page and "redacted copy" not in page
    # What the page has listed is copied again.
    copy_all()
    database.connection.execute("DELETE FROM checkpoints")
    import_location(location)
    page = reader.get(run.get_absolute_url(), at).content.decode()
    assert "changed" in page and "It was deleted at its location." in page


@pytest.mark.parametrize("version", VERSIONS)
def test_every_checkpoint_of_a_deleted_database_is_in_its_copy(threads: Threads, version: str) -> None:
    location = threads(version)
    runs = [opened(location, key) for key in ("map-sub-done", "appr-waiting", "fan-forked")]
    before = {row.pk: body_of(row) for run in runs for row in checkpoints_of(run)}
    for run in runs:
        star(run)
    copy_all()
    Path(location.path).unlink()
    rows = [row for run in runs for row in checkpoints_of(run)]
    assert {row.pk: body_of(row) for row in rows} == before
    assert {row.pk: body for row, body in bodies_of(location, rows)} == before
    # The file may be there again later.
    assert not [row for row in rows if row.is_pruned]


def test_every_tab_shows_a_thread_whose_database_was_deleted(threads: Threads, reader: Client) -> None:
    location = threads("lg12")
    runs = [opened(location, key) for key in ("map-sub-done", "appr-waiting")]
    pages = [(run.get_absolute_url(), {"at": run.head, "tab": tab}) for run in runs for tab in TABS]
    shown = [detail(reader, *page) for page in pages]
    for run in runs:
        star(run)
    copy_all()
    Path(location.path).unlink()
    for page, before in zip(pages, shown, strict=True):
        after = detail(reader, *page)
        assert "redacted copy of the checkpoint" in after
        assert after.split("</p>", 1)[1] == before


def detail(client: Client, address: str, query: dict[str, str]) -> str:
    """Return what a page shows below the tabs of a checkpoint."""
    response = client.get(address, query, headers={"HX-Request": "true", "HX-Target": "detail"})
    assert response.status_code == 200
    _, _, shown = response.content.decode().split('class="detail-body"')[1].partition(">")
    return str(shown)


def test_no_copy_holds_a_secret(tmp_path: Path, reader: Client) -> None:
    database = Database(tmp_path / "threads.db")
    message = {"content": f"call it with {KEY}", "type": "human", "id": "1"}
    values = {"api_key": KEY, "messages": [message], KEY: "a channel", "value": {"password": PASSWORD}}
    metadata = f'{{"source": "loop", "step": 0, "parents": {{}}, "token": "{KEY}"}}'.encode()
    database.add(0, packed(values), metadata=metadata)
    database.write(0, 0, "value", ormsgpack.packb({"password": PASSWORD, "key": KEY}))
    database.write(0, -3, "__interrupt__", ormsgpack.packb(f"Use {KEY}?"), task_id=f"task {KEY}")
    run = opened(imported_location(database.path), "t")
    star(run)
    copy_all()
    database.connection.close()
    database.path.unlink()
    (row,) = checkpoints_of(run)
    everything = str(body_of(row)) + repr(list(StoredCopy.objects.values("calls", "fingerprint")))
    for tab in TABS:
        everything += reader.get(
            run.get_absolute_url(), {"at": row.checkpoint_id, "tab": tab}
        ).content.decode()
    assert "call it with [redacted]" in everything
    assert KEY not in everything and PASSWORD not in everything


def test_copies_lose_a_secret_that_becomes_known_later(tmp_path: Path) -> None:
    database = Database(tmp_path / "threads.db")
    for number in range(3):
        database.add(number, packed({"value": f"so {VALUE}"}), thread_id=VALUE)
    location = imported_location(database.path)
    star(opened(location, VALUE))
    copy_all()
    (tmp_path / ".env").write_text(f"SERVICE_TOKEN='{VALUE}'\n")
    location.project = Project.objects.create(
        folder=str(tmp_path), interpreter="/bin/true", environment_file=str(tmp_path / ".env")
    )
    location.save()
    import_location(location)
    (run,) = location.runs.all()
    import_run(run)
    copy_all()
    database.connection.close()
    database.path.unlink()
    rows = checkpoints_of(run)
    assert len(rows) == 3 and len(copied_ids(run)) == 3
    texts = "".join(str(body_of(row)) for row in rows)
    assert VALUE not in texts and "so [redacted]" in texts


def test_copies_count_in_the_sizes_and_go_with_their_location(tmp_path: Path) -> None:
    location = copied_thread(tmp_path, 4)[1].location
    (copies,) = (one for one in sizes() if one.label == "Stored copies of checkpoints")
    assert copies.count == 4 and copies.size > 0
    location.delete()
    assert not StoredCopy.objects.exists()


def test_copies_stay_after_the_last_annotation(tmp_path: Path) -> None:
    _, run = copied_thread(tmp_path, 4)
    star(run, is_starred=False)
    assert not Annotation.objects.exists()
    copy_all()
    assert len(copied_ids(run)) == 4


def test_a_thread_that_is_back_is_shown_from_its_source(tmp_path: Path) -> None:
    database, run = copied_thread(tmp_path, 3)
    location = run.location
    database.connection.execute("UPDATE checkpoints SET thread_id = 'elsewhere'")
    import_location(location)
    assert {row.state for row in checkpoints_of(run)} == {Checkpoint.State.PRUNED}
    database.connection.execute("UPDATE checkpoints SET thread_id = 't'")
    import_location(location)
    import_run(run)
    assert {row.state for row in checkpoints_of(run)} == {Checkpoint.State.PRESENT}


def test_the_copies_of_a_deleted_database_can_be_deleted(tmp_path: Path) -> None:
    database, run = copied_thread(tmp_path, 4)
    database.connection.close()
    kept = database.path.rename(tmp_path / "kept.db")
    location = run.location
    star(run, is_starred=False)
    Job.objects.create(
        kind=Job.Kind.FORK, status="succeeded", location=location, run=run, checkpoint=run.checkpoints.first()
    )
    rules = PruneRules(days=0, copies=True)
    plan = fresh_plan(location, rules)
    assert len(plan.pruned) == 4 and prune(location, rules, plan.digest).copies == 4
    assert not copied_ids(run)
    kept.rename(database.path)
    import_location(location)
    import_run(run)
    assert {row.state for row in checkpoints_of(run)} == {Checkpoint.State.PRESENT}
    assert body_of(checkpoints_of(run)[0])
