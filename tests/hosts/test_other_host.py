"""Forks on another host that has the same project, which see no file of the checkpoint's host."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine_runs.graphs import NODES, PROJECT, STORE, digests
from tests.hosts.machines import Machine, created_database
from tests.hosts.test_remote import PAGES, marks, wait_for, wait_for_status
from tests.langgraph.postgresql.server import Server
from tests.real_stores import copy_of, hashes_below

DATABASE = "forkline_other_host"
CODE = "def build(): ...\n"
ADD = """
import sys
from django.utils import timezone
host = Host.objects.get(name=NAME)
location = Location.objects.get(pk=ask(OpenLocation(STORE), host=host.pk))
location.project = Project.objects.create(
    host=host,
    folder=ROOT,
    interpreter=PYTHON or sys.executable,
    environment_file=ENVIRONMENT,
    confirmed_at=timezone.now(),
    entry_points=[ENTRY_POINT],
)
location.save()
assert (error := ask(ImportLocation(location.pk)).read_error) is None, error
"""
# The checkpoint of the first host, whose code was recorded, and the location of the second one.
FORK = """
from viewer.launching.preview import other_locations
from viewer.launching.preview import preview_launch
from viewer.launching.refusals import LaunchRefused
from viewer.launching.requests import Accepted, ForkRequest
from viewer.launching.start import start
from viewer.models import JobEvent, StoredCopy
from viewer.records.bodies import stored_contents
checkpoint = Checkpoint.objects.filter(location__host__name="gpu-1").order_by("pk").first()
(on,) = other_locations(checkpoint)

def preview(branch, code=""):
    return preview_launch(ForkRequest(
        checkpoint=checkpoint,
        contents=stored_contents(checkpoint),
        project=on.project,
        entry_point="crew:build",
        branch=branch,
        on=on,
        accepted=Accepted(losses="*", code=code),
    ))

def messages(found):
    return [one.message for one in found.refusals]
"""


def adding(
    name: str,
    store: Path,
    folder: Path,
    entry_point: str = "crew:build",
    python: str = "",
    environment: str = "",
) -> str:
    """Return code that adds a store of a host, with its project."""
    values = name, str(store), str(folder), entry_point, python, environment
    return f"NAME, STORE, ROOT, ENTRY_POINT, PYTHON, ENVIRONMENT = {values!r}\n{ADD}"


@pytest.fixture(scope="module")
def machines(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Machine]]:
    """Return two hosts with the same project and a location each, and a web server."""
    folder = tmp_path_factory.mktemp("machines")
    created_database(server, DATABASE)
    runner = {"FAKE_RUNNER": "checkpoints/copies_a_fork.py"}
    found = {
        name: Machine(server, DATABASE, folder / name, variables=runner) for name in ("web", "gpu-1", "gpu-2")
    }
    web = found["web"]
    web.run("result = None")
    for name, kind in (("gpu-1", "flow"), ("gpu-2", "json")):
        (found[name].root / "crew.py").write_text(CODE)
        found[name].start_worker()
        wait_for(web, name)
        store = copy_of(f"1.15.30/{kind}", found[name].root)
        web.run(adding(name, store, found[name].root))
    yield found
    for machine in found.values():
        machine.end()


@pytest.fixture(scope="module")
def web(machines: dict[str, Machine]) -> Machine:
    web = machines["web"]
    web.run(f"""{FORK}
from viewer.host.jobs.checkout import blob_id
files = {{"crew.py": blob_id({CODE.encode()!r}, "")}}
recorded = RecordedCode.stored(files, "", is_dirty=None, is_complete=True)
source = checkpoint.location
wrote = Job.objects.create(
    kind="fork", location=source, run=checkpoint.run, project=source.project, code=recorded, branch="main",
    status="succeeded", host=source.host,
)
from django.utils import timezone
JobEvent.objects.create(
    job=wrote, seq=1, kind="checkpoint", at=timezone.now(), data={{"id": checkpoint.checkpoint_id}}
)
""")
    return web


@pytest.fixture
def second(machines: dict[str, Machine]) -> Iterator[Machine]:
    """Return the host on which checkpoints are forked. Its code is the recorded one again afterwards."""
    machine = machines["gpu-2"]
    yield machine
    (machine.root / "crew.py").write_text(CODE)
    machine.run("Host.objects.update(is_drained=False)")


def test_a_fork_runs_where_the_code_is_the_same(
    web: Machine, machines: dict[str, Machine], second: Machine
) -> None:
    before = hashes_below(machines["gpu-1"].root)
    job = web.run(f"{FORK}result = str(start(preview('elsewhere')).pk)")
    wait_for_status(web, job, "succeeded")
    assert marks(second) == [job] and marks(machines["gpu-1"]) == []
    assert hashes_below(machines["gpu-1"].root) == before
    host, location, branch, run = web.run(f"""
job = Job.objects.get(pk={job!r})
row = job.run.checkpoints.get(branch="elsewhere")
result = [job.host.name, row.location.host.name, row.branch, job.run.location_id == job.location_id]
""")
    assert (host, location, branch, run) == ("gpu-2", "gpu-2", "elsewhere", True)
    assert not list(Path(machines["gpu-1"].root).rglob("elsewhere"))


def test_its_pages_name_the_host_and_hide_nothing_else(web: Machine, second: Machine) -> None:
    pages = web.run(f"""{FORK}{PAGES.replace("location = Location.objects.get()", "")}
job = Job.objects.filter(branch="elsewhere").first()
from django.urls import reverse
address = reverse("fork", args=[checkpoint.pk])
found = [client.get(address), client.get(address, {{"on": on.uid}}), client.get(job.get_absolute_url())]
found.append(client.post(reverse("fork-plan", args=[checkpoint.pk]), {{"on": str(on.uid)}}))
missing = client.get(address, {{"on": checkpoint.location.uid}}).status_code
result = [[one.status_code, one.content.decode()] for one in found] + [missing]
""")
    missing = pages.pop()
    assert [status for status, _text in pages] == [200, 200, 200, 200] and missing == 404
    own, other, job, _plan = (text for _status, text in pages)
    assert "?on=" in own and "Run on" in own and "Runs on gpu-2" not in own
    assert "Runs on gpu-2" in other and "accept-code" not in other
    assert "The code has not changed since this ran." in other
    assert "gpu-2" in job and "--on" in job


def test_the_check_before_it_reads_the_stored_copy(web: Machine, second: Machine) -> None:
    status = web.run(f"""{FORK}
import time
from viewer.launching.preflight import check_of_checkpoint
ends, status = time.monotonic() + 300, ""
while status not in ("done", "failed"):
    status = check_of_checkpoint(checkpoint, on.project, "crew:build").status
    assert time.monotonic() < ends, status
    time.sleep(0.1)
result = status
""")
    assert status == "done"


def test_other_code_has_to_be_accepted(web: Machine, second: Machine) -> None:
    (second.root / "crew.py").write_text("def build(): return 1\n")
    said, changed = web.run(f"""{FORK}
from viewer.launching.preview import code_changes
found = preview("other-code")
try:
    start(found)
except LaunchRefused as refused:
    result = [messages(refused), [one.name for one in code_changes(checkpoint, on.project).files]]
""")
    assert "The code on gpu-2 is not the same" in said[0] and changed == ["crew.py"]
    job = web.run(f"{FORK}result = str(start(preview('other-code', preview('x').other_host.code)).pk)")
    wait_for_status(web, job, "succeeded")


def test_code_that_changed_after_it_was_accepted_does_not_run(web: Machine, second: Machine) -> None:
    second.run("Host.objects.filter(name='gpu-2').update(is_drained=True)")
    same = web.run(f"{FORK}result = str(start(preview('was-same')).pk)")
    (second.root / "crew.py").write_text("def build(): return 2\n")
    accepted = web.run(f"{FORK}result = str(start(preview('was-accepted', '*')).pk)")
    (second.root / "crew.py").write_text("def build(): return 3\n")
    second.run("Host.objects.update(is_drained=False)")
    for job in (same, accepted):
        wait_for_status(web, job, "failed")
        error = web.run(f"result = str(Job.objects.get(pk={job!r}).error.code)")
        assert error == "other_host.code_differs" and job not in marks(second)


def test_unknown_code_has_to_be_accepted(web: Machine, second: Machine) -> None:
    said = web.run(f"""{FORK}
checkpoint = Checkpoint.objects.filter(location__host__name="gpu-1").order_by("pk").last()
result = messages(preview("unknown"))
""")
    assert "or it is not known to be" in said[0]


def test_a_copy_that_lacks_a_secret_leaves_its_host_nowhere(web: Machine, second: Machine) -> None:
    """Not even if it became known after the fork was queued."""
    second.run("Host.objects.filter(name='gpu-2').update(is_drained=True)")
    job = web.run(f"{FORK}result = str(start(preview('with-secret')).pk)")
    said = web.run(f"""{FORK}
import zstandard
copy = StoredCopy.objects.get(checkpoint=checkpoint)
before = bytes(copy.data)
data = zstandard.ZstdDecompressor().decompress(before).replace(b'"branch"', b'"[redacted]"', 1)
StoredCopy.objects.filter(pk=copy.pk).update(data=zstandard.compress(data))
checkpoint = Checkpoint.objects.get(pk=checkpoint.pk)
result = [messages(preview("redacted")), before.hex()]
""")
    assert "secrets do not leave their host" in said[0][0]
    second.run("Host.objects.update(is_drained=False)")
    wait_for_status(web, job, "failed")
    assert job not in marks(second)
    web.run(f"""{FORK}
StoredCopy.objects.filter(checkpoint=checkpoint).update(data=bytes.fromhex({said[1]!r}))
""")


FORGED = {
    "its path": "job['location'] = {'path': '/etc', 'store_kind': 'json'}",
    "the checkpoint at its path": "job['checkpoint'].pop('stored')",
    "no copy": "job['accepted'] = {'code': '', 'copy': 'x'}",
    "no code": "job['accepted'] = {'code': 'x', 'copy': copy}",
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_row_starts_nothing(web: Machine, second: Machine, what: str) -> None:
    if what == "no code":
        (second.root / "crew.py").write_text("def build(): return 4\n")
    job = web.run(f"""{FORK}
from viewer.engines.plan import Edits
from viewer.records.runner_requests import request_for
from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.records.bodies import copy_digest, copy_to_send
copy = copy_digest(copy_to_send(checkpoint, kind_of(engine_of(on), checkpoint.entity)))
job = request_for(checkpoint, Job.Kind.FORK, "forged", Edits(), [], "crew:build", target=on)
job["accepted"] = {{"code": "", "copy": copy}}
{FORGED[what]}
stored = Job.objects.create(
    kind="fork", location=on, checkpoint=checkpoint, project=on.project, branch="forged", request=job,
    host=on.host,
)
result = str(stored.pk)
""")
    wait_for_status(web, job, "failed")
    assert job not in marks(second)


# A checkpoint of the thread "fan", and the location of the second host.
THREAD = """
from viewer.engines.plan import Edits
from viewer.launching.preview import other_locations
from viewer.launching.preview import preview_launch
from viewer.launching.requests import Accepted, ForkRequest
from viewer.launching.start import start
from viewer.records.bodies import body_of, stored_contents
run = Run.objects.get(location__host__name="gpu-1", key="fan")
ask(ImportRun(run.pk))
checkpoint = run.checkpoints.order_by("row")[2]
(on,) = other_locations(checkpoint)
def preview(**more):
    return preview_launch(ForkRequest(
        checkpoint=checkpoint,
        contents=stored_contents(checkpoint),
        project=on.project,
        entry_point="graphs:fan",
        branch="dogs",
        edits=Edits(state={"topic": "dogs"}),
        on=on,
        accepted=Accepted(losses="*", code="*", effects=True),
        **more,
    ))
"""


# A worker may store rows of its search index meanwhile.
REMOVE = """
from django.db import IntegrityError
while (threads := Location.objects.filter(engine="langgraph")).exists():
    try:
        threads.delete()
    except IntegrityError:
        pass
"""


@pytest.fixture
def threads(
    web: Machine, machines: dict[str, Machine], recorded_threads: Path, graph_python: Path
) -> Iterator[None]:
    """Have both hosts a store of LangGraph, with the same project."""
    for name in ("gpu-1", "gpu-2"):
        root = machines[name].root
        project = shutil.copytree(PROJECT, root / "graphs")
        store = shutil.copytree(recorded_threads, root / "threads") / STORE
        (root / "graphs.env").write_text(f"NODES_FILE={root / 'threads' / NODES}\n")
        values = "graphs:fan", str(graph_python), str(root / "graphs.env")
        web.run(adding(name, store, project, *values))
    yield
    web.run(REMOVE)


def test_a_thread_of_langgraph_runs_and_is_written_where_its_project_is(
    web: Machine, machines: dict[str, Machine], threads: None
) -> None:
    first, second = (machines[name].root / "threads" for name in ("gpu-1", "gpu-2"))
    before = digests(first)
    said = web.run(f"{THREAD}result = [one.message for one in preview(into='thread').refusals]")
    assert len(said) == 1 and "choose no other target" in said[0]
    job = web.run(f"{THREAD}result = str(start(preview()).pk)")
    wait_for_status(web, job, "succeeded")
    assert digests(first) == before
    assert sorted((second / NODES).read_text().split()) == ["end", "left", "right"]
    host, key, location, notes = web.run(f"""
from viewer.records.bodies import body_of
job = Job.objects.get(pk={job!r})
ask(ImportRun(job.run.pk))
body = body_of(job.run.checkpoints.latest("row"))
notes = body["checkpoint"]["channel_values"]["notes"]
result = [job.host.name, job.run.key, job.run.location_id == job.location_id, notes]
""")
    assert (host, key, location) == ("gpu-2", job, True) and "end on dogs" in notes
    # A secret that became known since.
    secret = web.run(f"{THREAD}result = body_of(checkpoint)['checkpoint']['channel_values']['notes'][0]")
    with open(machines["gpu-1"].root / "graphs.env", "a") as file:
        file.write(f"TOKEN={secret}\n")
    name, text = web.refused(f"{THREAD}ask(CopyStore(checkpoint.pk))")
    assert name == "NotReadable" and "secrets do not leave their host" in text
