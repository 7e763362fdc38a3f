"""What else uses the stored copies of threads: the search, exports, and deleting them."""

import json
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from tests.export.test_exports import exported
from tests.imported import imported_location
from tests.langgraph.conftest import opened
from tests.langgraph.copied import checkpoints_of, copied_ids, copied_thread, copy_all, star, written_thread
from tests.langgraph.databases import checkpoint_id, packed
from tests.pruning.test_pages_and_commands import browser
from tests.search.indexed import found, index_all
from viewer.host.locations.importing import import_location
from viewer.host.locations.indexing import import_run
from viewer.host.locations.pruning import plan_prune
from viewer.host_requests import PruneRules
from viewer.models import Checkpoint, Location, SearchedCheckpoint, SearchedLocation, SearchedRun, SearchEntry

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]
Threads = Callable[[str], Location]


def test_the_search_and_exports_use_the_copies(threads: Threads, reader: Client) -> None:
    location = threads("lg12")
    run = opened(location, "appr-done")
    star(run)
    copy_all()
    index_all()
    before = json.loads(exported(reader, run, "json"))["branches"]
    assert before[0]["is_readable"]
    entries = {entry.text for entry in found("drafted") if entry.run_id == run.pk}
    Path(location.path).unlink()
    assert json.loads(exported(reader, run, "json"))["branches"] == before
    # As after a secret has become known.
    SearchEntry.objects.all().delete()
    SearchedCheckpoint.objects.all().delete()
    SearchedRun.objects.all().delete()
    SearchedLocation.objects.update(mark="")
    index_all()
    assert {entry.text for entry in found("drafted") if entry.run_id == run.pk} == entries != set()


def test_only_copies_of_what_is_gone_can_be_deleted(tmp_path: Path) -> None:
    client = browser("run")
    database = written_thread(tmp_path, 5)
    database.add(0, packed({"value": 1}), thread_id="other")
    location = imported_location(database.path)
    run, other = opened(location, "t"), opened(location, "other")
    for one in (run, other):
        star(one)
    copy_all()
    address = reverse("prune", args=[location.uid])
    assert address in client.get(location.get_absolute_url()).content.decode()
    rules = {"branch": "main"}
    assert "These rules delete nothing." in client.get(address, rules).content.decode()
    database.connection.execute("DELETE FROM checkpoints WHERE thread_id = 't'")
    star(run, is_starred=False)
    import_location(location)
    plan = plan_prune(location, PruneRules(branch="main", copies=True))
    assert [row.checkpoint_id for row in plan.pruned] == [checkpoint_id(number) for number in range(5)]
    before = database.path.read_bytes()
    done = client.post(address, {**rules, "digest": plan.digest})
    assert done.status_code == 302 and database.path.read_bytes() == before
    assert not copied_ids(run) and {row.state for row in checkpoints_of(run)} == {Checkpoint.State.NO_COPY}
    assert len(copied_ids(other)) == 1
    import_location(location)
    import_run(run)
    assert {row.state for row in checkpoints_of(run)} == {Checkpoint.State.NO_COPY}


def test_without_its_option_the_command_deletes_no_copies(tmp_path: Path) -> None:
    location = imported_location(written_thread(tmp_path, 2).path)
    with pytest.raises(CommandError, match="--delete-copies"):
        call_command("checkpoints", "prune", location.path, "--days", "0")
    call_command("checkpoints", "prune", location.path, "--days", "0", "--delete-copies")


def test_nothing_starts_from_a_thread_that_is_gone(tmp_path: Path) -> None:
    database, run = copied_thread(tmp_path, 1)
    location = run.location
    client = browser("run")
    (row,) = checkpoints_of(run)
    assert reverse("fork", args=[row.pk]) in client.get(run.get_absolute_url()).content.decode()
    database.connection.execute("DELETE FROM checkpoints")
    import_location(location)
    assert reverse("fork", args=[row.pk]) not in client.get(run.get_absolute_url()).content.decode()


def test_the_terminal_shows_the_copies(threads: Threads) -> None:
    location = threads("lg12")
    run = opened(location, "appr-done")
    star(run)
    copy_all()
    address = f"{location.path}#appr-done/{run.head}"
    before, after, warned = StringIO(), StringIO(), StringIO()
    call_command("checkpoints", "info", address, "--json", stdout=before)
    Path(location.path).unlink()
    with redirect_stderr(warned):
        call_command("checkpoints", "info", address, "--json", stdout=after)
    assert json.loads(after.getvalue()) == json.loads(before.getvalue())
    assert "is shown as last imported" in warned.getvalue()
