"""A worker registers its machine as a host, writes heartbeats, and leaves."""

import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from urllib.request import urlopen

import pytest
from django.conf import settings
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from tests.environments import environment_with
from tests.jobs.conftest import ROOT
from tests.real_stores import copy_of
from tests.waiting import wait_until
from viewer.host import routing
from viewer.host.worker import HostNameTaken, beat, register
from viewer.host_requests import OpenLocation
from viewer.models import Host, Location, Project
from viewer.models.hosts import instance_here
from viewer.presentation.hosts import warnings_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def shared_database(settings: Settings) -> None:
    """Let several machines use the database, as with PostgreSQL."""
    settings.IS_DATABASE_SHARED = True


def another(name: str = "gpu-2", **values: object) -> Host:
    """Return a host of another machine, which was seen now."""
    facts = {"instance": "elsewhere", "address": "gpu-2.local", "is_up": True, "seen_at": Now()}
    host, _is_new = Host.objects.update_or_create(name=name, defaults={**facts, **values})
    host.refresh_from_db()
    return host


def test_the_only_host_needs_no_name() -> None:
    host = register(None, 4)
    assert (host.name, host.slots, host.instance) == ("default", 4, instance_here())
    assert host.version == settings.VERSION and host.folders == [str(settings.CHECKPOINT_ROOTS[0])]
    assert list(Host.objects.live()) == [host] and Host.objects.count() == 1


def test_a_name_renames_the_only_host_and_its_locations_stay() -> None:
    location = Location.objects.create(path="/checkpoints", store_kind="json")
    host = register("gpu-1", 4)
    location.refresh_from_db()
    assert (location.host_id, Host.objects.get().name) == (host.pk, "gpu-1")
    # Without a name, it keeps the one it has.
    assert register(None, 2).name == "gpu-1"


@pytest.mark.usefixtures("shared_database")
def test_the_first_machine_has_what_was_added_before_hosts_had_names() -> None:
    before, _is_new = Host.objects.get_or_create(name="default")
    location = Location.objects.create(path="/checkpoints", store_kind="json", host=before)
    assert not Location.objects.here().exists()
    register("gpu-1", 4)
    assert list(Location.objects.here()) == [location] and Host.objects.count() == 1


@pytest.mark.usefixtures("shared_database")
def test_a_command_makes_the_first_machine_a_host_without_a_worker(tmp_path: Path) -> None:
    store = copy_of("1.15.30/json", tmp_path)
    location = Location.objects.get(pk=routing.answer(OpenLocation(str(store), anywhere=True)))
    assert location.host == Host.own() and location.host.name == "default"
    assert not Host.objects.live().exists()


@pytest.mark.usefixtures("shared_database")
def test_a_second_machine_becomes_a_second_host() -> None:
    first = another("default")
    second = register("gpu-1", 4)
    assert second.pk != first.pk and list(Host.objects.here()) == [second]
    assert Location.objects.create(path="/checkpoints", store_kind="json").host == second
    assert Project.objects.create(folder="/project").host == second


@pytest.mark.usefixtures("shared_database")
@pytest.mark.parametrize("name", ["default", None])
def test_the_second_of_one_name_is_refused(name: str | None) -> None:
    first = another("default")
    with pytest.raises(HostNameTaken, match=r"default belongs to another machine, gpu-2\.local.*--host"):
        register(name, 4)
    first.refresh_from_db()
    assert first.instance == "elsewhere"


@pytest.mark.usefixtures("shared_database")
@pytest.mark.parametrize("change", [{"is_up": False}, {"seen_at": Now() - timedelta(seconds=31)}])
def test_a_machine_continues_under_the_name_of_one_that_is_away(change: dict[str, object]) -> None:
    first = another("gpu-1")
    Host.objects.filter(pk=first.pk).update(**change)
    assert register("gpu-1", 4).pk == first.pk
    # The other one learns that it has lost its name.
    assert Host.objects.get(name="gpu-1").instance == instance_here()


def test_a_heartbeat_has_the_time_and_the_clock_of_the_database() -> None:
    host = register(None, 4)
    Host.objects.filter(pk=host.pk).update(seen_at=timezone.now() - timedelta(hours=1))
    assert not Host.objects.live().exists()
    assert beat(host)
    host.refresh_from_db()
    assert host.clock_difference is not None and abs(host.clock_difference) < 5
    assert Host.objects.live().exists() and warnings_of(host) == []


def test_no_heartbeat_is_written_for_a_name_that_another_machine_has_taken() -> None:
    host = register(None, 4)
    Host.objects.filter(pk=host.pk).update(instance="elsewhere")
    assert not beat(host)


def test_a_clock_an_hour_apart_and_another_version_are_warned_about() -> None:
    ahead = another(clock_difference=3600.0, version=settings.VERSION)
    assert warnings_of(ahead) == [
        "Its clock is 1 h ahead of the database's. Set it: the times of its jobs are wrong."
    ]
    older = another("gpu-3", version="0.1.0", clock_difference=-3600.0)
    assert warnings_of(older) == [
        "Its clock is 1 h behind the database's. Set it: the times of its jobs are wrong.",
        f"It runs Forkline 0.1.0, others run {settings.VERSION}. Install the same version everywhere.",
    ]


@pytest.fixture
def worker(tmp_path: Path, empty_data_folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Return a worker with its own data folder."""
    shutil.copytree(empty_data_folder, tmp_path / "data")
    command = [sys.executable, "manage.py", "worker", "--host", "gpu-1"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment_with(tmp_path / "data"), stderr=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.wait()


# It reads the rows of the worker in its file.
@pytest.mark.sqlite
def test_a_worker_registers_and_leaves(worker: "subprocess.Popen[str]", tmp_path: Path) -> None:
    def hosts() -> list[tuple[str, int]]:
        with closing(sqlite3.connect(f"file:{tmp_path}/data/forkline.sqlite3?mode=ro", uri=True)) as database:
            return database.execute("SELECT name, is_up FROM viewer_host").fetchall()

    wait_until(lambda: worker.poll() is not None or hosts() == [("gpu-1", 1)])
    assert worker.poll() is None, worker.communicate()
    worker.terminate()
    assert worker.wait(60) == 0
    assert hosts() == [("gpu-1", 0)]


def test_the_web_server_runs_without_a_worker(tmp_path: Path, empty_data_folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shutil.copytree(empty_data_folder, tmp_path / "data")
    environment = environment_with(tmp_path / "data", PORT=str(port))
    command = [sys.executable, "manage.py", "web"]
    served = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert served.stdout and f"http://127.0.0.1:{port}" in served.stdout.readline()
        wait_until(lambda: is_healthy(port))
        served.terminate()
        assert served.wait(60) == 0
    finally:
        served.kill()
        served.wait()


def is_healthy(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
