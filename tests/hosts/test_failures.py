"""Nothing is lost if PostgreSQL restarts, is replaced, has no connection left, or cannot be reached."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.served_demo import free_port
from tests.hosts.failing_servers import NAME, Cut, FailingServer, pgbouncer
from tests.hosts.machines import Machine
from tests.hosts.test_remote import marks, wait_for
from tests.langgraph.postgresql.server import OWNER, Server
from tests.real_stores import copy_of

ADD = """
import sys
from django.utils import timezone
host = Host.objects.get(name="gpu-1")
project = Project.objects.create(
    host=host, folder=ROOT, interpreter=sys.executable, confirmed_at=timezone.now()
)
location = Location.objects.get(pk=ask(OpenLocation(STORE), host=host.pk))
location.project = project
location.save()
assert (error := ask(ImportLocation(location.pk)).read_error) is None, error
"""
FORK = """
from viewer.launching.start import start_job
checkpoint = Checkpoint.objects.filter(state="present").first()
location = Location.objects.select_related("project").get()
result = str(start_job(checkpoint, location.project, Job.Kind.FORK, BRANCH, {}, []).pk)
"""
# What a page or a command says of the database.
FAILURE = """
def failure():
    from django.db import DatabaseError, connection
    from viewer.data_folder.failures import failure_text
    connection.close()
    try:
        Job.objects.count()
    except DatabaseError as error:
        return failure_text(error)
"""


@pytest.fixture
def failing(server_data: Path) -> Iterator[FailingServer]:
    server = FailingServer(server_data)
    yield server
    server.end()


def wait_for_status(web: Machine, job: str, status: str) -> None:
    """Wait for the status of a job, also while PostgreSQL cannot be reached."""
    web.run(f"""
import time
from django.db import DatabaseError, connection
ends, found = time.monotonic() + 300, ""
while found != {status!r}:
    assert time.monotonic() < ends, found
    time.sleep(0.1)
    try:
        found = Job.objects.get(pk={job!r}).status
    except DatabaseError:
        connection.close()
""")


def address(*ports: int) -> str:
    hosts = ",".join("127.0.0.1" for _port in ports)
    return f"host={hosts} port={','.join(map(str, ports))} dbname={NAME} user={OWNER}"


@pytest.fixture
def started(tmp_path: Path, server: Server) -> Iterator["Started"]:
    found = Started(tmp_path, server)
    yield found
    found.end()


class Started:
    """A web server and a host with a store, with the addresses of a test."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server, self.machines = folder, server, list[Machine]()

    def begin(self, of_web: str, of_host: str, **variables: str) -> tuple[Machine, Machine]:
        """Return the web server and the host, whose connection may be another one."""
        for name, url in (("web", of_web), ("gpu-1", of_host)):
            own = {"DATABASE_URL": url, **variables}
            self.machines.append(Machine(self.server, NAME, self.folder / name, variables=own))
        web, host = self.machines
        web.run("result = None")
        host.start_worker()
        wait_for(web, "gpu-1")
        store = copy_of("1.15.30/json", host.root)
        web.run(ADD.replace("ROOT", repr(str(host.root))).replace("STORE", repr(str(store))))
        return web, host

    def end(self) -> None:
        for machine in self.machines:
            machine.end()


def test_hosts_answer_and_run_forks_behind_pgbouncer(failing: FailingServer, started: Started) -> None:
    with pgbouncer(failing.port) as port:
        web, host = started.begin(address(port), address(port), DATABASE_DIRECT_URL=address(failing.port))
        assert web.run("""
checkpoint = Checkpoint.objects.filter(state="present").first()
result = all(ask(ReadBody(checkpoint.pk)) for _ in range(20))
""")
        job = web.run(FORK.replace("BRANCH", "'pooled'"))
        wait_for_status(web, job, "succeeded")
        assert marks(host) == [job]
        doctor = ("checkpoints", "doctor")
        assert "PostgreSQL's notifications arrive." in web.manage(*doctor).stdout
        del web.variables["DATABASE_DIRECT_URL"]
        assert "set DATABASE_DIRECT_URL to the address of the server" in web.manage(*doctor).stdout
        started.end()


def test_a_fork_goes_on_while_postgresql_is_restarted(failing: FailingServer, started: Started) -> None:
    web, host = started.begin(address(failing.port), address(failing.port))
    (host.root / "go").unlink()
    job = web.run(FORK.replace("BRANCH", "'one'"))
    wait_for_status(web, job, "running")
    failing.kill()
    text = web.run(f"{FAILURE}result = failure()")
    assert "cannot be reached" in text and "Nothing is lost." in text
    # It ends while nobody can store that.
    (host.root / "go").touch()
    failing.start()
    wait_for_status(web, job, "succeeded")
    assert marks(host) == [job] and host.worker and host.worker.poll() is None


def test_a_standby_that_takes_over_starts_no_run_again(failing: FailingServer, started: Started) -> None:
    """The worst one: it has the job as queued, as the commit of its claim was lost."""
    port = free_port()
    url = f"{address(failing.port, port)} target_session_attrs=read-write"
    web, host = started.begin(url, url)
    (host.root / "go").unlink()
    # The host takes no job before the standby has it as queued, and the standby gets nothing afterwards.
    web.run("Host.objects.update(is_drained=True)")
    job = web.run(FORK.replace("BRANCH", "'one'"))
    standby = FailingServer(failing, port)
    try:
        standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
        standby.execute("SELECT pg_reload_conf()")
        web.run("Host.objects.update(is_drained=False)")
        wait_for_status(web, job, "running")
        failing.kill()
        standby.promote()
        assert standby.execute("SELECT status FROM viewer_job", NAME) == [("queued",)]
        standby.execute("UPDATE viewer_host SET is_drained = false", NAME)
        wait_for_status(web, job, "running")
        (host.root / "go").touch()
        wait_for_status(web, job, "succeeded")
        assert marks(host) == [job]
    finally:
        started.end()
        standby.end()


def test_a_host_without_a_free_connection_continues_once_there_is_one(
    failing: FailingServer, started: Started
) -> None:
    web, host = started.begin(address(failing.port), address(failing.port))
    (host.root / "go").unlink()
    job = web.run(FORK.replace("BRANCH", "'one'"))
    wait_for_status(web, job, "running")
    # Of a role that is no superuser, the server refuses all further connections.
    failing.execute(f"ALTER DATABASE {NAME} CONNECTION LIMIT 0")
    failing.execute("CREATE ROLE substitute SUPERUSER LOGIN")
    failing.execute(f"ALTER ROLE {OWNER} NOSUPERUSER")
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'forkline'"
    failing.execute(ended, role="substitute")
    (host.root / "go").touch()
    text = web.run(f"{FAILURE}result = failure()")
    assert "no connection left" in text and "Raise its max_connections" in text
    failing.execute(f"ALTER DATABASE {NAME} CONNECTION LIMIT -1", role="substitute")
    wait_for_status(web, job, "succeeded")
    assert marks(host) == [job]
    failing.execute(f"ALTER ROLE {OWNER} SUPERUSER", role="substitute")


def test_a_host_that_is_cut_off_goes_on_and_everything_arrives_afterwards(
    failing: FailingServer, started: Started
) -> None:
    with Cut(failing.port) as cut:
        web, host = started.begin(address(failing.port), address(cut.port))
        (host.root / "go").unlink()
        jobs = [web.run(FORK.replace("BRANCH", repr(name))) for name in ("one", "two")]
        for job in jobs:
            wait_for_status(web, job, "running")
        cut.close()
        # Its heartbeats are missing, and its runs go on and end.
        wait_for(web, "gpu-1", is_up=False)
        stalled = "from viewer.records.hosts import is_stalled\n"
        assert web.run(f"{stalled}result = [is_stalled(job) for job in Job.objects.all()]") == [True] * 2
        (host.root / "go").touch()
        assert web.refused(FORK.replace("BRANCH", "'three'"))[1] == "The host gpu-1 does not answer."
        store = host.root / "1.15.30" / "json"
        shutil.copytree(store / "main", store / "other")
        before = web.run("result = Checkpoint.objects.count()")
        cut.open()
        for job in jobs:
            wait_for_status(web, job, "succeeded")
        assert sorted(marks(host)) == sorted(jobs)
        web.run(f"""
import time
ends = time.monotonic() + 300
while Checkpoint.objects.count() <= {before}:
    time.sleep(0.1)
    assert time.monotonic() < ends
""")
        started.end()
