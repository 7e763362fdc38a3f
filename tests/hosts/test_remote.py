"""Two hosts and a web server on a real PostgreSQL, with no folder in common."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hosts.machines import Machine, created_database
from tests.langgraph.postgresql.server import Server
from tests.real_stores import copy_of

DATABASE = "forkline_hosts"
PAGES = """
from django.test import Client
from viewer.records.accounts import teammate
client = Client(headers={"host": "127.0.0.1:8000"})
client.force_login(teammate("ada", "run"))
location = Location.objects.get()
"""


@pytest.fixture(scope="module")
def machines(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Machine]]:
    """Return two hosts, whose workers run, and a web server."""
    folder = tmp_path_factory.mktemp("machines")
    created_database(server, DATABASE)
    found = {name: Machine(server, DATABASE, folder / name) for name in ("web", "gpu-1", "gpu-2")}
    found["web"].run("result = None")
    for name in ("gpu-1", "gpu-2"):
        found[name].start_worker()
        wait_for(found["web"], name)
    yield found
    for machine in found.values():
        machine.end()


@pytest.fixture(scope="module")
def web(machines: dict[str, Machine]) -> Machine:
    return machines["web"]


@pytest.fixture(scope="module")
def store(machines: dict[str, Machine]) -> Path:
    """Return a real store in the allowed folder of the second host, which has been added with its project."""
    path = copy_of("1.15.30/json", machines["gpu-2"].root)
    machines["web"].run(f"""
import sys
from django.utils import timezone
host = Host.objects.get(name="gpu-2")
location = Location.objects.get(pk=ask(OpenLocation({str(path)!r}), host=host.pk))
assert (error := ask(ImportLocation(location.pk)).read_error) is None, error
location.project = Project.objects.create(
    host=host,
    folder={str(machines["gpu-2"].root)!r},
    interpreter=sys.executable,
    confirmed_at=timezone.now(),
    entry_points=["crew:build"],
)
location.save()
""")
    return path


def wait_for(web: Machine, name: str, *, is_up: bool = True) -> float:
    """Return how many seconds it took until the host was seen, or was missed."""
    seconds: float = web.run(f"""
import time
began = time.monotonic()
while Host.objects.live().filter(name={name!r}).exists() != {is_up}:
    time.sleep(0.1)
    assert time.monotonic() - began < 300
result = time.monotonic() - began
""")
    return seconds


@contextmanager
def stopped(machine: Machine) -> Iterator[None]:
    """Stop the worker within the block, as when its machine has lost its network."""
    assert machine.worker
    os.kill(machine.worker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(machine.worker.pid, signal.SIGCONT)


def test_a_location_is_added_and_imported_by_its_host(web: Machine, store: Path) -> None:
    assert not store.is_relative_to(web.root)
    assert web.run("""
location = Location.objects.get()
result = [location.path, location.host.name, location.read_error, location.checkpoints.count() > 5]
""") == [str(store), "gpu-2", None, True]


def test_a_new_checkpoint_is_observed_by_its_host(web: Machine, store: Path) -> None:
    count = "result = Checkpoint.objects.count()"
    before = web.run(count)
    shutil.copytree(store / "main", store / "other")
    web.run(f"""
import time
ends = time.monotonic() + 300
while Checkpoint.objects.count() == {before}:
    time.sleep(0.1)
    assert time.monotonic() < ends
""")
    shutil.rmtree(store / "other")


def test_a_checkpoint_is_read_at_its_source(web: Machine, store: Path) -> None:
    assert web.run("""
checkpoint = Checkpoint.objects.filter(state="present").first()
result = bool(ask(ReadBody(checkpoint.pk)))
""")


def test_a_request_in_a_transaction_is_answered(web: Machine, store: Path) -> None:
    assert web.run("""
from django.db import transaction
with transaction.atomic():
    result = ask(Redact(None, ["a"])) + ask(Redact(Project.objects.get().pk, ["b"]))
""") == ["a", "b"]


def test_pages_show_what_is_on_other_machines(web: Machine, store: Path) -> None:
    pages = web.run(f"""{PAGES}
checkpoint = Checkpoint.objects.filter(state="present").first()
address = location.get_absolute_url()
addresses = ["/", "/hosts/", "/jobs/", "/data/", f"/locations/?host={{location.host_id}}", address]
addresses += [f"{{address}}project/", checkpoint.get_absolute_url()]
result = []
for one in addresses:
    page = client.get(one, follow=True)
    result.append([one, page.status_code, page.content.decode()])
""")
    assert [status for _address, status, _page in pages] == [200] * len(pages)
    shown = {address: page for address, _status, page in pages}
    assert "gpu-1" in shown["/hosts/"] and "gpu-2" in shown["/hosts/"]
    # The allowed folders are those of the chosen host.
    (adding,) = (page for address, page in shown.items() if "?host=" in address)
    assert str(store.parents[1]) in adding and str(web.root) not in adding
    assert any("on gpu-2" in page for address, page in shown.items() if address.startswith("/locations/"))


def test_a_location_is_added_from_a_page(web: Machine, machines: dict[str, Machine], store: Path) -> None:
    path = copy_of("1.15.30/flow", machines["gpu-1"].root)
    assert web.run(f"""{PAGES}
host = Host.objects.get(name="gpu-1").pk
client.post("/locations/add/", {{"path": {str(path)!r}, "host": host}})
added = Location.objects.get(host=host)
# The worker may be importing it at the same time.
import time
ends = time.monotonic() + 300
while not added.checkpoints.exists() and time.monotonic() < ends:
    time.sleep(0.1)
result = [added.path, added.checkpoints.exists()]
ask(RemoveLocation(added.pk))
""") == [str(path), True]


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
ask(ImportLocation(location.pk))
result = location.checkpoints.count() > 5
ask(RemoveLocation(location.pk))
""")


def test_rows_of_two_hosts_in_one_request_are_refused(web: Machine, store: Path) -> None:
    name, text = web.refused("""
project = Project.objects.create(folder="/project", host=Host.objects.get(name="gpu-1"))
try:
    ask(CheckWriteTarget(project.pk, Location.objects.get().pk))
finally:
    project.delete()
""")
    assert (name, text) == ("JobRefused", "The location and the project are on different hosts.")


def test_a_machine_that_is_no_host_opens_nothing_itself(web: Machine, store: Path) -> None:
    name, text = web.refused(f"ask(OpenLocation({str(web.root)!r}, anywhere=True))")
    assert name == "UnknownLocation" and "forkline worker --host NAME" in text


def test_a_second_machine_of_one_name_does_not_start(
    web: Machine, machines: dict[str, Machine], server: Server, tmp_path: Path
) -> None:
    second = Machine(server, DATABASE, tmp_path / "gpu-1")
    second.start_worker()
    assert second.worker and second.worker.wait(300) == 1
    assert web.run("result = Host.objects.live().count()") == 2


# What queues a fork for the second host.
QUEUE = """
from viewer.launching.start import start_job
checkpoint = Checkpoint.objects.filter(location__host__name="gpu-2", state="present").first()
location = Location.objects.select_related("project").get(pk=checkpoint.location_id)
job = start_job(checkpoint, location.project, Job.Kind.FORK, BRANCH, {}, [])
result = str(job.pk)
"""


def marks(machine: Machine) -> list[str]:
    """Return the id of each job that was started on this machine, once per start."""
    path = machine.root / "marks"
    return path.read_text().split() if path.exists() else []


def wait_for_status(web: Machine, job: str, status: str) -> None:
    web.run(f"""
import time
ends = time.monotonic() + 300
while Job.objects.get(pk={job!r}).status != {status!r}:
    time.sleep(0.1)
    assert time.monotonic() < ends, list(Job.objects.values())
""")


def test_a_fork_runs_on_the_host_of_its_location(
    web: Machine, machines: dict[str, Machine], store: Path
) -> None:
    job = web.run(QUEUE.replace("BRANCH", "'one'"))
    wait_for_status(web, job, "succeeded")
    assert (marks(machines["gpu-1"]), marks(machines["gpu-2"])) == ([], [job])


def test_a_job_is_claimed_once_by_many_workers_of_its_host(
    web: Machine, machines: dict[str, Machine], store: Path
) -> None:
    """Each claims all jobs, in the same order, so that they meet at each of them."""
    host = machines["gpu-2"]
    queue = """
location = Location.objects.get()
result = Job.objects.bulk_create(Job(kind=Job.Kind.SCORE, location=location) for _ in range(300)) and None
"""
    claim = """
result = [str(job.pk) for job in Job.objects.filter(kind=Job.Kind.SCORE).order_by("pk") if job.claim()]
"""
    workers = [host.another_process() for _ in range(3)]
    for worker in workers:
        worker.run("result = None")
    # The host's own worker would follow what they have claimed.
    with stopped(host), ThreadPoolExecutor(3) as threads:
        web.run(queue)
        claimed = list(threads.map(lambda worker: worker.run(claim), workers))
        assert machines["gpu-1"].run(claim) == []
        web.run("Job.objects.filter(kind=Job.Kind.SCORE).delete()")
    for worker in workers:
        worker.end()
    jobs = [job for of_one in claimed for job in of_one]
    assert len(jobs) == len(set(jobs)) == 300


def test_a_host_that_does_not_answer_is_named_and_pages_show_the_rest(
    web: Machine, machines: dict[str, Machine], store: Path
) -> None:
    ordinary = web.another_process(is_patient=False)
    ordinary.run("result = None")
    with stopped(machines["gpu-2"]):
        # Its last heartbeat is recent, so this waits for a moment.
        location = "location = Location.objects.get().pk\n"
        name, text = ordinary.refused(f"{location}ask(RemoveLocation(location))")
        assert name == "WouldBeLost" and "gpu-2 does not answer" in text
        run = "run = Run.objects.first()\n"
        imported = ordinary.run(f"{run}result = str(ask(ImportRun(run.pk)).read_error)")
        assert "gpu-2 does not answer" in imported
        name, text = ordinary.refused("ask(ReadBody(Checkpoint.objects.first().pk))")
        assert name == "NotReadable" and "gpu-2 does not answer" in text
        # A page that is nothing without the host says so.
        assert ordinary.run(f"""{PAGES}
address = location.get_absolute_url()
result = [client.get(address).status_code, client.get(address + "project/").status_code]
""") == [200, 503]
        ordinary.end()
        # Of another machine, nothing is noticed.
        assert web.run("""
host = Host.objects.get(name="gpu-1").pk
result = ask(FindStores(), host=host) != []
""")
    # What was given up is not done later, and nothing is left of it.
    assert web.run("result = len(ask(ReadBody(Checkpoint.objects.first().pk))) > 0")
    assert web.run("result = Location.objects.count()") == 1
    machines["gpu-2"].run("from viewer.host.remote import forget_given_up; forget_given_up()")
    assert web.run("""
from django.db import connection
cursor = connection.cursor()
cursor.execute("SELECT (SELECT count(*) FROM procrastinate_jobs), (SELECT count(*) FROM viewer_hostrequest)")
result = cursor.fetchone()
""") == [0, 0]


def test_a_silent_host_is_soon_waited_for_again(
    web: Machine, machines: dict[str, Machine], store: Path
) -> None:
    """It may only be slow, and something may ask it all the time."""
    ordinary = web.another_process(is_patient=False)
    ordinary.run("result = None")
    with stopped(machines["gpu-2"]):
        waited = ordinary.run("""
import time
from viewer.host import remote
remote.TAKEN_SECONDS, remote.SILENT_TAKEN_SECONDS, remote.SILENT_SECONDS = 2.0, 0.1, 1.0
run, result = Run.objects.first().pk, []
for _ in range(10):
    began = time.monotonic()
    assert ask(ImportRun(run)).read_error
    result.append(time.monotonic() - began)
""")
        ordinary.end()
    assert sum(seconds > 2 for seconds in waited) > 1, waited


FORM = f"""{PAGES}
from tests.views.forking import filled, is_startable, page
checkpoint = Checkpoint.objects.filter(state="present", branch="main").order_by("-row").first()
address = page(checkpoint)
sent = filled(client, checkpoint, branch="queued")
sent.pop("waits_for_host", None)
def statuses():
    return [client.post(address, sent).status_code, Job.objects.filter(branch="queued").count()]
"""


def test_a_start_is_refused_or_queued_while_its_host_is_away(
    web: Machine, machines: dict[str, Machine], store: Path
) -> None:
    host = machines["gpu-2"]
    host.stop_worker()
    wait_for(web, "gpu-2", is_up=False)
    text, is_refused, statuses = web.run(f"""{FORM}
text = client.get(address).content.decode()
result = [text, not is_startable(text), statuses()]
""")
    assert "gpu-2 does not answer, so its project was not read and no preflight check ran." in text
    assert "gpu-2 does not answer: queue the start" in text and is_refused and statuses == [422, 0]
    # Sent twice, it is stored once.
    job, statuses, is_startable = web.run(f"""{FORM}
sent["waits_for_host"] = "1"
plan = client.post(page(checkpoint, "fork-plan"), sent).content.decode()
sent_twice = [statuses(), statuses()]
result = [str(Job.objects.get(branch="queued").pk), sent_twice, is_startable(plan)]
""")
    assert statuses == [[302, 1], [302, 1]] and is_startable
    shown = web.run(
        f"{PAGES}result = client.get(Job.objects.get(pk={job!r}).get_absolute_url()).content.decode()"
    )
    assert "for gpu-2, which has not answered since" in shown
    queued = {job, fork_at_a_terminal(web, store), *queued_by_other_forms(web)}
    assert len(queued) == 5 and not queued & set(marks(host))
    host.start_worker()
    for started in queued:
        wait_for_status(web, started, "succeeded")
        assert marks(host).count(started) == 1
    # What only its host could have checked was not accepted, and no secret was kept.
    assert web.run(f"""
request = Job.objects.get(pk={job!r}).request
result = [request["options"]["accepted"], request["kept"]["inputs"]]
""") == [[], {}]


def queued_by_other_forms(web: Machine) -> list[str]:
    """Queue a new run and a sweep of two forks. Return the ids of their jobs."""
    statuses, jobs = web.run(f"""{FORM}
from django.urls import reverse
from uuid import uuid4
run, sweep = reverse("new-run", args=[location.uid]), reverse("new-sweep", args=[checkpoint.pk])
both = {{"waits_for_host": "1"}}
fields = {{"entry_point": "crew:build", "entity": "crew", "location": str(location.uid)}}
swept = {{"vary-input:topic": "one\\ntwo", "branch": "swept"}}
def post(address, sent):
    return client.post(address, {{"key": str(uuid4()), **sent}}).status_code
statuses = [post(run, fields), post(sweep, swept)]
statuses += [post(run, {{**fields, **both}}), post(sweep, {{**swept, **both}})]
# Its host cannot check a path that somebody typed.
statuses.append(post(run, {{**fields, "location": "new", "new_location": "/etc/store.db", **both}}))
jobs = Job.objects.filter(kind="run") | Job.objects.exclude(sweep=None)
result = [statuses, [str(pk) for pk in jobs.values_list("pk", flat=True)]]
""")
    assert statuses == [422, 422, 302, 302, 422]
    return list(map(str, jobs))


def fork_at_a_terminal(web: Machine, store: Path) -> str:
    """Queue a fork with a command on a machine that is no host. Return the id of its job."""
    named = f"gpu-2:{store}"
    listed = web.manage("checkpoints", "list", named, "--json")
    assert "gpu-2 does not answer" in listed.stderr
    (run,) = json.loads(listed.stdout)["runs"]
    fork = ("checkpoints", "fork", f"{named}#{run['checkpoints'][0]['id']}", "--branch", "typed", "--json")
    refused = json.loads(web.manage(*fork).stdout)
    assert refused["status"] == "refused" and refused["hints"] == ["Queue it with --queue."]
    queued = json.loads(web.manage(*fork, "--queue").stdout)
    assert queued["status"] == "queued"
    # No path is taken from another machine, only what its rows have.
    assert "has no location /etc" in web.manage("checkpoints", "list", "gpu-2:/etc").stderr
    return str(queued["job"])


def test_a_person_who_may_only_read_queues_nothing(web: Machine, store: Path) -> None:
    assert web.run(f"""{PAGES}
from django.urls import reverse
client.force_login(teammate("eve"))
checkpoint = Checkpoint.objects.first()
posted = client.post(reverse("fork", args=[checkpoint.pk]), {{"waits_for_host": "1", "branch": "read"}})
result = [posted.status_code, Job.objects.filter(branch="read").exists()]
""") == [403, False]


def test_a_job_of_a_killed_host_is_stalled_until_it_is_back(
    web: Machine, machines: dict[str, Machine], store: Path
) -> None:
    host = machines["gpu-2"]
    (host.root / "go").unlink()
    job = web.run(QUEUE.replace("BRANCH", "'two'"))
    wait_for_status(web, job, "running")
    stalled = f"job = Job.objects.get(pk={job!r})\nresult = [job.status, is_stalled(job)]"
    assert web.run(stalled) == ["running", False]
    assert host.worker
    host.worker.kill()
    host.worker.wait()
    assert wait_for(web, "gpu-2", is_up=False) < 60
    assert web.run(stalled) == ["running", True]
    name, text = web.refused("ask(ReadBody(Checkpoint.objects.first().pk))")
    assert name == "NotReadable" and "gpu-2 does not answer" in text
    # The run goes on, and nothing starts it again.
    (host.root / "go").touch()
    host.start_worker()
    wait_for_status(web, job, "succeeded")
    assert marks(host).count(job) == 1 and web.run(stalled) == ["succeeded", False]
