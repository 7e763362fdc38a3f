"""Hosts of a pool share a folder and a project, as real processes: each job starts once, whichever ends."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scripts.served_demo import free_port
from tests.hosts.failing_servers import NAME, FailingServer
from tests.hosts.machines import Machine
from tests.hosts.test_failures import ADD, FORK, address, failing, wait_for_status
from tests.hosts.test_remote import stopped, wait_for
from tests.langgraph.postgresql.server import OWNER, Server, fill_with_threads
from tests.real_stores import copy_of

__all__ = ["failing"]

# The location of the folder, and that of the database.
FOLDER, THREADS = "Location.objects.get(engine='crewai')", "Location.objects.get(engine='langgraph')"
SHARE = f"""
from viewer.records.hosts import change_pool
change_pool({FOLDER}, Pool.objects.get(name="shared"))
"""
# A host that is silent counts as away at once.
SILENT = "UPDATE viewer_host SET seen_at = now() - interval '1 hour' WHERE name = 'gpu-1'"
# A database of LangGraph, in the same project.
ADD_THREADS = f"""
from django.utils import timezone
shared = {FOLDER}
threads = Location.objects.get(pk=ask(OpenLocation("postgresql:agents"), host=shared.host_id))
threads.project = shared.project
threads.save()
ask(ImportLocation(threads.pk))
run = threads.runs.get(key="fan-failed")
ask(ImportRun(run.pk))
from viewer.records.hosts import change_pool
change_pool(threads, Pool.objects.get(name="shared"))
"""
RESET = f"""
from viewer.records.hosts import change_pool
Job.objects.all().delete()
Host.objects.update(is_drained=False)
location = {FOLDER}
if location.pool is None:
    change_pool(location, Pool.objects.get(name="shared"))
"""
WAIT = """
import time
from django.db import DatabaseError, connection
ends, found = time.monotonic() + 300, None
while not found:
    assert time.monotonic() < ends
    time.sleep(0.1)
    try:
        found = CONDITION
    except DatabaseError:
        connection.close()
"""


class Cluster:
    """A web server and two hosts of a pool, which see the same folder."""

    def __init__(self, folder: Path, server: Server, failing: FailingServer) -> None:
        self.standby_port = free_port()
        url = f"{address(failing.port, self.standby_port)} target_session_attrs=read-write"
        self.root = folder / "shared"
        self.root.mkdir()
        (self.root / "go").touch()
        variables = {
            "DATABASE_URL": url,
            "CHECKPOINT_ROOTS": str(self.root),
            "CANCEL_GRACE_SECONDS": "60",
            "FAKE_ENGINES": "crewai langgraph",
            # A pool refuses a database at a loopback address, which is another one on each machine.
            "POSTGRESQL_LOCATIONS": f"agents=host=0.0.0.0 port={failing.port} dbname=agents user={OWNER}",
        }
        self.machines = [
            Machine(server, NAME, folder / name, variables=variables, pools=("shared",))
            for name in ("web", "gpu-1", "gpu-2")
        ]
        self.web, self.first, self.second = self.machines

    def begin(self) -> None:
        """Start the workers, and wait until both have recognised the location, which the first one reads."""
        self.web.run("result = None")
        for host in (self.first, self.second):
            host.start_worker()
            wait_for(self.web, host.name)
        store = copy_of("1.15.30/json", self.root)
        self.web.run(ADD.replace("ROOT", repr(str(self.root))).replace("STORE", repr(str(store))) + SHARE)
        self.wait("PoolMember.objects.filter(refusal__isnull=True).count() == 2")

    def wait(self, condition: str) -> None:
        """Return once an expression holds."""
        self.web.run(WAIT.replace("CONDITION", condition))

    def fork(self, branch: str) -> str:
        return str(self.web.run(FORK.replace("BRANCH", repr(branch))))

    @property
    def marks(self) -> list[str]:
        """The id of each job that was started, once per start."""
        path = self.root / "marks"
        return sorted(path.read_text().split()) if path.exists() else []

    def host_of(self, job: str) -> str:
        return str(self.web.run(f"result = Job.objects.get(pk={job!r}).host.name"))

    def end(self) -> None:
        # Runners of a test that failed wait for it.
        (self.root / "go").touch()
        for machine in self.machines:
            machine.end()


@pytest.fixture
def cluster(failing: FailingServer, server: Server, tmp_path: Path) -> Iterator[Cluster]:
    """Return hosts that a test may kill, with a server of their own."""
    found = Cluster(tmp_path, server, failing)
    found.begin()
    yield found
    found.end()


@pytest.fixture(scope="module")
def module_cluster(
    server_data: Path, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    failing = FailingServer(server_data)
    found = Cluster(tmp_path_factory.mktemp("cluster"), server, failing)
    found.begin()
    failing.execute("CREATE DATABASE agents")
    fill_with_threads(f"host=127.0.0.1 port={failing.port} dbname=agents user={OWNER}")
    yield found
    found.end()
    failing.end()


@pytest.fixture
def lasting(module_cluster: Cluster) -> Cluster:
    """Return hosts that stay up, without jobs."""
    module_cluster.web.run(RESET)
    (module_cluster.root / "marks").unlink(missing_ok=True)
    (module_cluster.root / "go").touch()
    module_cluster.wait(f"PoolMember.objects.filter(location={FOLDER}, refusal__isnull=True).count() == 2")
    return module_cluster


def test_any_host_of_the_pool_runs_a_job_and_each_once(lasting: Cluster) -> None:
    cluster = lasting
    (cluster.root / "go").unlink()
    jobs = [cluster.fork(f"fork-{number}") for number in range(8)]
    # Each host has four slots, and none is free before the file exists.
    cluster.wait("Job.objects.filter(status='running').count() == 8")
    assert {cluster.host_of(job) for job in jobs} == {"gpu-1", "gpu-2"}
    assert cluster.web.run("""
from viewer.presentation.hosts import shown_hosts
result = [one.running for one in shown_hosts()]
""") == [4, 4]
    (cluster.root / "go").touch()
    for job in jobs:
        wait_for_status(cluster.web, job, "succeeded")
    assert cluster.marks == sorted(jobs)


def test_a_job_is_started_nowhere_else_after_its_host_was_killed(
    cluster: Cluster, failing: FailingServer
) -> None:
    """Whether it was killed before or after it started the runner: only the row of the job is known."""
    (cluster.root / "go").unlink()
    cluster.web.run("Host.objects.filter(name='gpu-2').update(is_drained=True)")
    assert cluster.first.worker
    # As if it had been killed between its claim and the start.
    os.kill(cluster.first.worker.pid, signal.SIGSTOP)
    claimed = cluster.web.run("""
from django.utils import timezone
location = Location.objects.select_related("project").get()
job = Job(kind="fork", location=location, branch="claimed", project=location.project)
job.status, job.started_at, job.host = "starting", timezone.now(), location.host
job.save()
result = str(job.pk)
""")
    cluster.first.end()
    cluster.web.run("Host.objects.filter(name='gpu-2').update(is_drained=False)")
    failing.execute(SILENT, NAME)
    cluster.wait("Location.objects.get().host.name == 'gpu-2'")
    queued = cluster.fork("queued")
    (cluster.root / "go").touch()
    wait_for_status(cluster.web, queued, "succeeded")
    assert cluster.host_of(queued) == "gpu-2" and cluster.marks == [queued]
    assert cluster.web.run(f"result = Job.objects.get(pk={claimed!r}).status") == "starting"
    # Back again, it follows what it claimed, reads nothing, and takes jobs.
    cluster.first.start_worker()
    wait_for_status(cluster.web, claimed, "interrupted")
    assert cluster.marks == [queued]
    assert cluster.web.run("result = Location.objects.get().host.name") == "gpu-2"


def test_a_host_that_was_cut_off_starts_nothing_that_another_one_took(
    cluster: Cluster, failing: FailingServer
) -> None:
    with stopped(cluster.first):
        failing.execute(SILENT, NAME)
        cluster.wait("Location.objects.get().host.name == 'gpu-2'")
        job = cluster.fork("one")
        wait_for_status(cluster.web, job, "succeeded")
    wait_for(cluster.web, "gpu-1")
    other = cluster.fork("two")
    wait_for_status(cluster.web, other, "succeeded")
    assert cluster.host_of(job) == "gpu-2" and cluster.marks == sorted([job, other])
    assert cluster.web.run("result = Location.objects.get().host.name") == "gpu-2"


def test_a_job_whose_pool_was_left_waits_for_the_host_of_its_location(lasting: Cluster) -> None:
    cluster = lasting
    with stopped(cluster.first), stopped(cluster.second):
        job = cluster.web.run("""
from viewer.records.hosts import change_pool, claimants
location = Location.objects.select_related("project").get(engine="crewai")
by_any = claimants(location, None)
assert "queued_in" in by_any
job = Job.objects.create(kind="fork", location=location, branch="one", project=location.project, **by_any)
change_pool(location, None)
result = str(job.pk)
""")
    wait_for_status(cluster.web, job, "succeeded")
    assert cluster.host_of(job) == "gpu-1" and cluster.marks == [job]


def test_two_hosts_that_claim_the_same_jobs_get_each_once(lasting: Cluster) -> None:
    cluster = lasting
    cluster.web.run("Host.objects.update(is_drained=True)")
    jobs = [cluster.fork(f"fork-{number}") for number in range(20)]
    claim = """
from viewer.postgresql import rows_identity
result = [str(job.pk) for job in Job.objects.order_by("created_at") if job.claim(rows_identity())]
"""
    with ThreadPoolExecutor(4) as threads:
        hosts = [machine.another_process() for machine in (cluster.first, cluster.second) * 2]
        claimed = [set(found) for found in threads.map(lambda host: host.run(claim), hosts)]
        for host in hosts:
            host.end()
    assert sorted(job for found in claimed for job in found) == sorted(jobs)
    of_first, of_second = claimed[0] | claimed[2], claimed[1] | claimed[3]
    assert {cluster.host_of(job) for job in of_first} <= {"gpu-1"}
    assert {cluster.host_of(job) for job in of_second} <= {"gpu-2"}


def test_a_drained_host_claims_nothing_and_the_others_do(lasting: Cluster) -> None:
    cluster = lasting
    cluster.web.run("Host.objects.filter(name='gpu-1').update(is_drained=True)")
    jobs = [cluster.fork(f"fork-{number}") for number in range(3)]
    for job in jobs:
        wait_for_status(cluster.web, job, "succeeded")
    assert {cluster.host_of(job) for job in jobs} == {"gpu-2"} and cluster.marks == sorted(jobs)
    cluster.wait(f"{FOLDER}.host.name == 'gpu-2'")


def test_any_host_of_the_pool_runs_the_jobs_of_a_database(lasting: Cluster) -> None:
    cluster = lasting
    cluster.web.run(ADD_THREADS)
    cluster.wait(f"PoolMember.objects.filter(location={THREADS}, refusal__isnull=True).count() == 2")
    reader = cluster.web.run(f"result = {THREADS}.host.name")
    (other,) = {"gpu-1", "gpu-2"} - {reader}
    cluster.web.run(f"Host.objects.filter(name={reader!r}).update(is_drained=True)")
    job = cluster.web.run(f"""
from viewer.launching.start import start_job
threads = {THREADS}
checkpoint = threads.runs.get(key="fan-failed").checkpoints.latest("row")
result = str(start_job(checkpoint, threads.project, Job.Kind.FORK, "one", {{}}, []).pk)
""")
    wait_for_status(cluster.web, job, "succeeded")
    assert cluster.host_of(job) == other and cluster.marks == [job]


def test_on_a_server_that_does_not_say_which_one_it_is_the_reading_host_runs_the_jobs(
    cluster: Cluster, failing: FailingServer
) -> None:
    cluster.web.run("Host.objects.update(is_drained=True)")
    known = cluster.fork("known")
    failing.execute(f"REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC, {OWNER}", NAME)
    failing.execute("CREATE ROLE substitute SUPERUSER LOGIN")
    failing.execute(f"ALTER ROLE {OWNER} NOSUPERUSER")
    cluster.web.run("Host.objects.update(is_drained=False)")
    jobs = [cluster.fork(f"fork-{number}") for number in range(4)]
    for job in jobs:
        wait_for_status(cluster.web, job, "succeeded")
    assert {cluster.host_of(job) for job in jobs} == {"gpu-1"}
    cluster.web.run("""
from viewer.records.hosts import change_pool
change_pool(Location.objects.get(), None)
""")
    without = cluster.fork("without")
    wait_for_status(cluster.web, without, "succeeded")
    assert (
        cluster.web.run(f"""
from viewer.presentation.jobs.status import wait_of
result = wait_of(Job.objects.get(pk={known!r})).kind
""")
        == "person"
    )
    assert cluster.marks == sorted([*jobs, without])


def test_after_a_failover_no_other_host_starts_what_may_have_been_started(
    cluster: Cluster, failing: FailingServer
) -> None:
    """The standby has the job as queued, as the commit of the claim was lost."""
    (cluster.root / "go").unlink()
    cluster.web.run("Host.objects.update(is_drained=True)")
    job = cluster.fork("one")
    standby = FailingServer(failing, cluster.standby_port)
    try:
        standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
        standby.execute("SELECT pg_reload_conf()")
        cluster.web.run("Host.objects.filter(name='gpu-1').update(is_drained=False)")
        wait_for_status(cluster.web, job, "running")
        assert cluster.first.worker
        # The host that runs it is silent while the other one could take it.
        with stopped(cluster.first):
            failing.kill()
            standby.promote()
            assert standby.execute("SELECT status FROM viewer_job", NAME) == [("queued",)]
            standby.execute("UPDATE viewer_host SET is_drained = false", NAME)
            standby.execute(SILENT, NAME)
            cluster.wait("Location.objects.get().host.name == 'gpu-2'")
            assert (
                cluster.web.run("""
from viewer.presentation.jobs.status import wait_of
result = wait_of(Job.objects.get()).kind
""")
                == "person"
            )
        wait_for_status(cluster.web, job, "running")
        (cluster.root / "go").touch()
        wait_for_status(cluster.web, job, "succeeded")
        assert cluster.host_of(job) == "gpu-1" and cluster.marks == [job]
    finally:
        cluster.end()
        standby.end()
