"""A fault of a machine or its database is reported, and no job is lost or starts twice."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.deploy.test_services import NAMESPACE, may_mount
from tests.hosts.failing_servers import NAME, FailingServer
from tests.hosts.machines import Machine
from tests.hosts.test_failures import ADD, FAILURE, FORK, address, wait_for_status
from tests.hosts.test_remote import marks, wait_for
from tests.langgraph.postgresql.server import Server
from tests.real_stores import copy_of

WAIT_FOR_WARNING = """
import time
from viewer.presentation.hosts import warnings_of
ends, found = time.monotonic() + 300, ["nothing yet"]
while found != [] if TEXT == "" else not any(TEXT in one for one in found):
    assert time.monotonic() < ends, found
    time.sleep(0.2)
    found = warnings_of(Host.objects.get(name="gpu-1"))
result = found
"""
WAITING = """
from viewer.presentation.jobs.status import wait_of
result = wait_of(Job.objects.get(pk=JOB)).text
"""
# What is free on the small disk of a server: some files of its write-ahead log, of 16 MiB each.
FREE_BYTES = 64 * 1024 * 1024
# Mounts a small disk at the first argument, where only the command after it sees it.
MOUNTED = 'mount -t tmpfs -o size=48m tmpfs "$1" && shift && exec "$@"'


class Cluster:
    """A server, a web server and a host with a store."""

    def __init__(self, folder: Path, server: Server, data: Path) -> None:
        self.failing = FailingServer(data)
        own = {"DATABASE_URL": address(self.failing.port)}
        self.web = Machine(server, NAME, folder / "web", variables=own)
        self.host = Machine(server, NAME, folder / "gpu-1", variables=dict(own))
        self.web.run("result = None")

    def begin(self) -> None:
        """Start the host, and add its store."""
        self.host.start_worker()
        wait_for(self.web, "gpu-1")
        store = copy_of("1.15.30/json", self.host.root)
        self.web.run(ADD.replace("ROOT", repr(str(self.host.root))).replace("STORE", repr(str(store))))

    def begin_on_small_disk(self) -> tuple[Path, str]:
        """Start the host with its data folder on a small disk, and a job that runs until "go" exists.

        Return the data folder and the job.
        """
        data = self.host.folder / "data"
        data.mkdir()
        self.host.prefix = [*NAMESPACE, "sh", "-c", MOUNTED, "sh", str(data)]
        self.begin()
        (self.host.root / "go").unlink()
        running = self.fork("running")
        wait_for_status(self.web, running, "running")
        return data, running

    def fork(self, branch: str) -> str:
        return str(self.web.run(FORK.replace("BRANCH", repr(branch))))

    def warnings(self, text: str) -> list[str]:
        """Wait until a warning of the host has this text, or until it has none if the text is empty.

        Return its warnings.
        """
        found: list[str] = self.web.run(WAIT_FOR_WARNING.replace("TEXT", repr(text)))
        return found

    def status(self, job: str) -> str:
        return str(self.web.run(f"result = Job.objects.get(pk={job!r}).status"))

    def end(self) -> None:
        for machine in (self.web, self.host):
            machine.end()
        self.failing.end()


@pytest.fixture
def cluster(tmp_path: Path, server: Server, server_data: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, server, server_data)
    yield cluster
    cluster.end()


@pytest.mark.parametrize(("seconds", "text"), [(3600, "1 h ahead of"), (-3600, "1 h behind")])
def test_a_job_starts_when_the_database_says_so_although_the_clock_of_its_host_is_wrong(
    cluster: Cluster, seconds: int, text: str
) -> None:
    web, host = cluster.web, cluster.host
    host.variables |= {
        "DJANGO_SETTINGS_MODULE": "tests.hosts.wrong_clock",
        "CLOCK_SECONDS": str(seconds),
    }
    cluster.begin()
    assert cluster.warnings(text)
    assert text in host.manage("checkpoints", "hosts").stdout + host.manage("checkpoints", "doctor").stdout
    later, soon = (
        web.run(f"""
from datetime import timedelta
from django.utils import timezone
from viewer.launching.start import move_start
Host.objects.update(is_drained=True)
{FORK.replace("BRANCH", repr(branch))}
assert move_start(Job.objects.get(pk=result), timezone.now() + timedelta(seconds={delay}))
Host.objects.update(is_drained=False)
""")
        or web.run(f"result = str(Job.objects.get(branch={branch!r}).pk)")
        for branch, delay in (("later", 1800), ("soon", 3))
    )
    wait_for_status(web, soon, "succeeded")
    assert cluster.status(later) == "queued" and marks(host) == [soon]
    # Its heartbeats count by the clock of the database.
    assert web.run("result = list(Host.objects.live().values_list('name', flat=True))") == ["gpu-1"]
    assert (
        web.run("from viewer.records.hosts import is_stalled\nresult = is_stalled(Job.objects.first())")
        is False
    )


def test_a_host_with_an_older_version_is_named_and_refused_at_its_next_start(cluster: Cluster) -> None:
    web, host = cluster.web, cluster.host
    cluster.begin()
    job = cluster.fork("one")
    wait_for_status(web, job, "succeeded")
    newer = Machine(cluster.web.server, NAME, web.folder.parent / "newer", variables=dict(web.variables))
    newer.variables |= {"DJANGO_SETTINGS_MODULE": "tests.hosts.newer_settings"}
    newer.run("result = None")
    newer.variables |= {"FAKE_RUNNER": "succeeds_after_go.py"}
    newer.start_worker()
    wait_for(web, "newer")
    assert "Install the same version everywhere." in " ".join(cluster.warnings("others run 9.9.9"))
    # It goes on meanwhile, and a new start says what to do.
    wait_for_status(web, cluster.fork("two"), "succeeded")
    # It has changed the tables as well.
    cluster.failing.execute(
        "INSERT INTO django_migrations (app, name, applied) VALUES ('viewer', '9999_later', now())", NAME
    )
    web.run("Host.objects.filter(name='gpu-1').update(is_drained=True)")
    waiting = cluster.fork("three")
    host.stop_worker()
    refused = host.manage("worker", "--host", "gpu-1")
    assert refused.returncode == 1 and "Traceback" not in refused.stderr
    assert "was created by Forkline 9.9.9; this is 0.2.0, which cannot read it" in refused.stderr
    assert cluster.status(waiting) == "queued" and len(marks(host)) == 2
    newer.end()


@pytest.mark.skipif(not may_mount(), reason="this account may not mount a disk")
def test_no_job_starts_on_a_full_disk_and_all_start_once_it_has_space(cluster: Cluster) -> None:
    web, host = cluster.web, cluster.host
    data, running = cluster.begin_on_small_disk()
    assert host.worker
    filler = Path(f"/proc/{host.worker.pid}/root{data}/filler")
    fill_disk(filler)
    said = cluster.warnings("hardly any space is left")
    assert str(data) in said[0]
    assert said[0] in web.manage("checkpoints", "doctor").stdout
    queued = cluster.fork("queued")
    text = web.run(WAITING.replace("JOB", repr(queued)))
    assert "for space on the disk" in text and str(data) in text
    (host.root / "go").touch()
    assert cluster.status(queued) == "queued"
    filler.unlink()
    for job in (running, queued):
        wait_for_status(web, job, "succeeded")
    cluster.warnings("")
    assert marks(host) == [running, queued] and host.worker.poll() is None


@pytest.mark.skipif(
    not may_mount() or not shutil.which("nsenter"), reason="this account may not mount a disk"
)
def test_no_job_starts_while_the_data_folder_is_read_only(cluster: Cluster) -> None:
    web, host = cluster.web, cluster.host
    data, running = cluster.begin_on_small_disk()
    assert host.worker
    inside = ["nsenter", "-t", str(host.worker.pid), "-m"]
    subprocess.run([*inside, "mount", "--bind", str(data), str(data)], check=True)
    subprocess.run([*inside, "mount", "-o", "remount,bind,ro", str(data)], check=True)
    said = cluster.warnings("cannot be written")
    assert str(data) in said[0]
    queued = cluster.fork("queued")
    assert "which cannot be written" in web.run(WAITING.replace("JOB", repr(queued)))
    (host.root / "go").touch()
    assert cluster.status(queued) == "queued"
    subprocess.run([*inside, "umount", str(data)], check=True)
    for job in (running, queued):
        wait_for_status(web, job, "succeeded")
    cluster.warnings("")
    assert marks(host) == [running, queued] and host.worker.poll() is None


def test_a_host_goes_on_while_the_database_is_read_only(cluster: Cluster) -> None:
    web, host, failing = cluster.web, cluster.host, cluster.failing
    cluster.begin()
    (host.root / "go").unlink()
    running, queued = cluster.fork("running"), cluster.fork("queued")
    wait_for_status(web, running, "running")
    failing.execute("ALTER SYSTEM SET default_transaction_read_only = on")
    failing.execute("SELECT pg_reload_conf()")
    text = web.run(
        f"{FAILURE.replace('Job.objects.count()', 'Host.objects.update(load=0)')}"
        """
import time
ends, result = time.monotonic() + 300, None
while not result and time.monotonic() < ends:
    result = failure()
"""
    )
    assert "read-only" in text and "DATABASE_URL" in text
    (host.root / "go").touch()
    # Its heartbeats are missing.
    wait_for(web, "gpu-1", is_up=False)
    assert web.manage("checkpoints", "doctor").stdout.count("read-only") >= 1
    failing.execute("ALTER SYSTEM RESET default_transaction_read_only")
    failing.execute("SELECT pg_reload_conf()")
    for job in (running, queued):
        wait_for_status(web, job, "succeeded")
    assert sorted(marks(host)) == sorted([running, queued]) and host.worker and host.worker.poll() is None


@pytest.mark.skipif(not may_mount() or os.geteuid() != 0, reason="this account may not mount a disk")
def test_everything_arrives_once_the_server_has_space_again(cluster: Cluster) -> None:
    web, host, failing = cluster.web, cluster.host, cluster.failing
    with on_small_disk(failing) as filler:
        # The server has ended its connection.
        web.run("from django.db import connection\nconnection.close()")
        cluster.begin()
        (host.root / "go").unlink()
        running = cluster.fork("running")
        wait_for_status(web, running, "running")
        fill_disk(filler)
        text = web.run(
            """
import time
from django.db import DatabaseError, connection
from viewer.data_folder.failures import failure_text
ends, result = time.monotonic() + 300, ""
while not result and time.monotonic() < ends:
    try:
        Job.objects.update(log_end="x" * 1_000_000)
        Location.objects.update(read_error=None)
    except DatabaseError as error:
        result = failure_text(error)
        connection.close()
"""
        )
        assert "no space left" in text or "cannot be reached" in text
        (host.root / "go").touch()
        filler.unlink()
        # A server that could not write its log has ended.
        with suppress(subprocess.CalledProcessError):
            failing.start()
        wait_for_status(web, running, "succeeded")
        assert marks(host) == [running] and host.worker and host.worker.poll() is None
        host.end()


def fill_disk(filler: Path) -> None:
    """Write to this file until no space is left on its disk."""
    # Without a buffer, closing the file writes nothing.
    with open(filler, "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(64 * 1024))


@contextmanager
def on_small_disk(server: FailingServer) -> Iterator[Path]:
    """Move the data of a server to a small disk within the block. Yield the path of a file on that disk."""
    server.run("pg_ctl", "stop", "-m", "fast")
    data, aside = server.folder / "data", server.folder / "aside"
    data.rename(aside)
    data.mkdir()
    used = sum(file.stat().st_size for file in aside.rglob("*") if file.is_file())
    size = f"size={used + FREE_BYTES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", data], check=True)
    try:
        subprocess.run(["cp", "-a", f"{aside}/.", data], check=True)
        server.start()
        yield data / "filler"
    finally:
        with suppress(subprocess.CalledProcessError):
            server.kill()
        # Processes of the server may still be exiting.
        subprocess.run(["umount", "--lazy", data], check=True)
