"""Requests to another host go over a real PostgreSQL, and are refused where they must be."""

import os
import shutil
import signal
import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.hosts.machines import Machine, created_database, started
from tests.langgraph.postgresql.server import Server
from tests.real_stores import copy_of

DATABASE = "forkline"


@pytest.fixture(scope="module")
def machines(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Machine]]:
    """Return two hosts and a web server, which have no folder in common."""
    folder = tmp_path_factory.mktemp("machines")
    created_database(server, DATABASE, folder / "web")
    found = {
        name: started(server, DATABASE, folder / name, name, is_host=name != "web")
        for name in ("gpu-1", "gpu-2", "web")
    }
    yield found
    for machine in found.values():
        machine.process.kill()
        machine.process.wait()


@pytest.fixture(scope="module")
def web(machines: dict[str, Machine]) -> Machine:
    return machines["web"]


@pytest.fixture(scope="module")
def store(machines: dict[str, Machine]) -> Path:
    """Return a real store in the allowed folder of the second host, which has been added."""
    path = copy_of("1.15.30/json", machines["gpu-2"].root)
    machines["web"].run(f"""
host = Host.objects.get(name="gpu-2")
location = ask(OpenLocation({str(path)!r}), host=host.pk)
ask(ImportLocation(location))
""")
    return path


def test_a_location_is_added_and_imported_by_its_host(web: Machine, store: Path) -> None:
    assert not store.is_relative_to(web.root)
    assert web.run("""
location = Location.objects.get()
result = [location.path, location.host.name, location.read_error, location.checkpoints.count() > 5]
""") == [str(store), "gpu-2", None, True]


def test_a_checkpoint_is_read_at_its_source_in_time(web: Machine, store: Path) -> None:
    seconds = web.run("""
import time
checkpoint = Checkpoint.objects.first()
result = []
for _ in range(50):
    began = time.perf_counter()
    assert ask(ReadBody(checkpoint.pk))
    result.append(time.perf_counter() - began)
""")
    assert statistics.median(seconds) < 0.15


def test_a_request_in_a_transaction_is_answered(web: Machine, store: Path) -> None:
    assert web.run("""
from django.db import transaction
with transaction.atomic():
    result = ask(Redact(None, ["a"])) + [len(ask(ReadBody(Checkpoint.objects.first().pk))) > 0]
""") == ["a", True]


def test_nothing_outside_the_allowed_folders_of_a_host_is_opened(
    web: Machine, machines: dict[str, Machine], store: Path
) -> None:
    (machines["gpu-2"].root / "link").symlink_to("/etc")
    # The folder of one host is not that of another.
    others = copy_of("1.15.30/json", machines["gpu-1"].root)
    host = 'host = Host.objects.get(name="gpu-2").pk\n'
    location = "location = Location.objects.get(host=host).pk\n"
    for path in ("/etc", str(others), str(machines["gpu-2"].root / "link"), str(web.root)):
        for request in (
            f"OpenLocation({path!r})",
            # What a command on the host itself may do.
            f"OpenLocation({path!r}, anywhere=True)",
            f"FindEntryPoints('crewai', {path!r})",
            f"FindProjectFiles({path!r}, 'crewai')",
            f"ProposeProject({path!r}, 'crewai')",
            f"CheckImports({path!r}, '', '', [])",
            f"ChangePath(location, {path!r})",
        ):
            name, text = web.refused(f"{host}{location}ask({request}, host=host)")
            assert name in ("UnknownLocation", "HostRefusal") and "outside the folders" in text, request
    typed = "'/etc', '/usr/bin/python3', '/etc/passwd'"
    errors = web.run(f"{host}result = list(ask(CheckProjectPaths({typed}), host=host).errors)")
    assert errors == ["folder", "interpreter", "environment_file"]
    assert web.run(f"{host}result = ask(CompletePath('/etc/host'), host=host)") == []
    assert web.run("result = Location.objects.count()") == 1


def test_a_path_of_a_row_is_read_although_it_is_outside(
    web: Machine, machines: dict[str, Machine], store: Path, tmp_path: Path
) -> None:
    """A person with an account on the host has added it there."""
    added = shutil.copytree(store, tmp_path / "elsewhere")
    machines["gpu-2"].run(f"ask(OpenLocation({str(added)!r}, anywhere=True))")
    assert web.run(f"""
location = Location.objects.get(path={str(added)!r})
result = ask(ImportLocation(location.pk)).read > 5
ask(RemoveLocation(location.pk))
""")


def test_rows_of_two_hosts_in_one_request_are_refused(web: Machine, store: Path) -> None:
    name, text = web.refused("""
project = Project.objects.create(folder="/project", host=Host.objects.get(name="gpu-1"))
ask(CheckWriteTarget(project.pk, Location.objects.get().pk))
""")
    assert (name, text) == ("JobRefused", "The location and the project are on different hosts.")


def test_a_machine_that_is_no_host_opens_nothing_itself(web: Machine, store: Path) -> None:
    name, text = web.refused(f"ask(OpenLocation({str(web.root)!r}, anywhere=True))")
    assert name == "UnknownLocation" and "forkline worker --host NAME" in text


def test_each_host_takes_only_its_own_jobs(web: Machine, machines: dict[str, Machine], store: Path) -> None:
    job = web.run("""
job = Job.objects.create(kind=Job.Kind.RUN, location=Location.objects.get())
result = str(job.pk)
""")
    take = "from viewer.records.queue import next_job\nresult = str(getattr(next_job(), 'pk', ''))"
    claim = f"result = Job.objects.get(pk={job!r}).claim()"
    assert (machines["gpu-1"].run(take), machines["gpu-2"].run(take)) == ("", job)
    claims = [machines[name].run(claim) for name in ("gpu-1", "gpu-2", "gpu-1", "gpu-2")]
    assert claims == [False, True, False, False]


def test_a_job_is_claimed_once_by_many_workers_of_its_host(
    web: Machine, machines: dict[str, Machine], store: Path, server: Server
) -> None:
    """Each claims all jobs, in the same order, so that they meet at each of them."""
    web.run("""
location = Location.objects.get()
result = Job.objects.bulk_create(Job(kind=Job.Kind.SCORE, location=location) for _ in range(300)) and None
""")
    folder = machines["gpu-2"].root.parent
    workers = [started(server, DATABASE, folder, "gpu-2", is_host=False) for _ in range(3)]
    try:
        claim = """
result = [str(job.pk) for job in Job.objects.filter(kind=Job.Kind.SCORE).order_by("pk") if job.claim()]
"""
        with ThreadPoolExecutor(3) as threads:
            claimed = list(threads.map(lambda worker: worker.run(claim), workers))
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.wait()
    jobs = [job for of_one in claimed for job in of_one]
    assert len(jobs) == len(set(jobs)) == 300 and all(claimed)
    web.run("Job.objects.filter(kind=Job.Kind.SCORE).delete()")


def test_a_host_that_does_not_answer_is_named_and_pages_show_the_rest(
    web: Machine, machines: dict[str, Machine], store: Path
) -> None:
    process = machines["gpu-2"].process
    os.kill(process.pid, signal.SIGSTOP)
    try:
        # Its last heartbeat is recent, so this waits for a moment.
        location = "location = Location.objects.get().pk\n"
        name, text = web.refused(f"{location}ask(RemoveLocation(location))")
        assert name == "WouldBeLost" and "gpu-2 does not answer" in text
        run = "run = Run.objects.first()\n"
        assert "gpu-2 does not answer" in web.run(f"{run}result = str(ask(ImportRun(run.pk)).read_error)")
        name, text = web.refused("ask(ReadBody(Checkpoint.objects.first().pk))")
        assert name == "NotReadable" and "gpu-2 does not answer" in text
        # Of another machine, nothing is noticed.
        assert web.run("""
host = Host.objects.get(name="gpu-1").pk
result = ask(FindStores(), host=host) != []
""")
    finally:
        os.kill(process.pid, signal.SIGCONT)
    # What was given up is not done later.
    assert web.run("result = len(ask(ReadBody(Checkpoint.objects.first().pk))) > 0")
    assert web.run("result = Location.objects.count()") == 1


def test_a_job_of_a_killed_host_is_stalled_within_a_minute(
    web: Machine, machines: dict[str, Machine], store: Path
) -> None:
    stalled = "job = Job.objects.get()\nresult = [job.status, is_stalled(job)]"
    assert web.run(stalled) == ["starting", False]
    machines["gpu-2"].process.kill()
    waited = web.run("""
import time
began = time.monotonic()
while not is_stalled(Job.objects.get()):
    time.sleep(0.2)
result = time.monotonic() - began
""")
    assert waited < 60
    name, text = web.refused("ask(ReadBody(Checkpoint.objects.first().pk))")
    assert name == "NotReadable" and "gpu-2 does not answer" in text
    # Nothing starts it again.
    assert web.run(stalled) == ["starting", True]
