"""A store of flow states is only read: nothing runs from it, writes to it or deletes there."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.flow_states import add_state, states_at
from tests.imported import imported_location
from tests.real_stores import hashes_below
from tests.terminal import Terminal
from viewer.engines.crewai.labels import CREW
from viewer.host.locations.pruning import plan_prune
from viewer.host.locations.write_targets import write_target_at, write_target_of
from viewer.host_requests import PruneRules, UnknownLocation
from viewer.launching.new_run import preview_new_run
from viewer.launching.refusals import Code
from viewer.launching.requests import NewRunRequest
from viewer.models import Host, Location, Project
from viewer.records.bodies import stored_body


@pytest.fixture
def location(db: None, tmp_path: Path) -> Location:
    return imported_location(states_at(tmp_path / "flow_states.db"))


def test_its_runs_are_flows_with_their_states(location: Location, runner: Client) -> None:
    assert (location.store_kind, location.engine) == ("states", "crewai")
    assert sorted(location.runs.values_list("key", "entity")) == [
        ("first", "flow_state"),
        ("second", "flow_state"),
    ]
    run = location.runs.get(key="first")
    page = runner.get(run.get_absolute_url()).content.decode()
    assert "choose" in page and "check" in page
    last = run.checkpoints.get(is_branch_head=True)
    state = runner.get(f"{run.get_absolute_url()}?at={last.checkpoint_id}&tab=state").content.decode()
    assert "rounds" in state and "bees" in state


def test_no_run_starts_from_a_state(location: Location, runner: Client) -> None:
    page = runner.get(location.get_absolute_url()).content.decode()
    assert reverse("new-run", args=[location.uid]) not in page
    checkpoint = location.checkpoints.first()
    assert checkpoint
    page = runner.post(reverse("fork", args=[checkpoint.pk]), {"branch": "mine"}).content.decode()
    assert "No run can start from a checkpoint of this kind." in page
    assert not location.jobs.exists()


def test_nothing_is_written_or_deleted_there(location: Location, tmp_path: Path) -> None:
    before = hashes_below(tmp_path)
    with pytest.raises(UnknownLocation, match="file of states"):
        write_target_at(location.path, Project.objects.create(folder=str(tmp_path)))
    assert not plan_prune(location, PruneRules(days=0)).rows
    assert hashes_below(tmp_path) == before


def test_a_run_never_writes_where_states_were(location: Location, tmp_path: Path) -> None:
    project = Project.objects.create(folder=str(tmp_path))
    with closing(sqlite3.connect(location.path)) as connection:
        connection.execute("CREATE TABLE checkpoints (id TEXT PRIMARY KEY, created_at TEXT, data JSONB)")
    with pytest.raises(UnknownLocation, match="file of states"):
        write_target_of(location, project)
    Path(location.path).unlink()
    with pytest.raises(UnknownLocation, match="file of states"):
        write_target_of(location, project)


def test_no_run_is_queued_to_write_there_while_its_host_is_away(location: Location, tmp_path: Path) -> None:
    away = Host.objects.create(name="gpu-2", instance="elsewhere")
    project = Project.objects.create(folder=str(tmp_path), host=away, confirmed_at=timezone.now())
    Location.objects.filter(pk=location.pk).update(host=away, project=project)
    request = NewRunRequest(
        project=project, entry_point="a:b", kind=CREW, name="a", inputs={}, target=Location.objects.get()
    )
    preview = preview_new_run(request)
    assert preview.target is None and Code.TARGET in {one.code for one in preview.refusals}


def test_the_terminal_lists_them(location: Location, terminal: Terminal) -> None:
    text = terminal.text("list", location.path)
    assert "first" in text and "flow_state" in text and "20261120T100500_00000006" in text


def test_a_secret_in_a_state_is_redacted(db: None, tmp_path: Path) -> None:
    path, secret = states_at(tmp_path / "flow_states.db"), "sk-proj-" + "a1B2" * 10
    with closing(sqlite3.connect(path)) as connection:
        add_state(connection, "first", "write", {"id": "first", "api_key": secret, "note": f"key {secret}"})
        connection.commit()
    head = imported_location(path).checkpoints.get(source_key="7")
    body = json.dumps(stored_body(head))
    assert secret not in body and body.count("[redacted]") == 2
