"""What a project's code may return or do instead of listing checkpoints, and what is never done."""

import os
import random
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import ormsgpack
import psutil
import pytest

from quality.fuzz import hostile_savers
from tests.langgraph.conftest import opened
from tests.waiting import wait_until
from viewer.host.jobs import savers
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.host.locations.observing import Observed, server_mark
from viewer.host_requests import JobRefused, UnknownLocation
from viewer.models import Location, Project
from viewer.records.bodies import stored_contents
from viewer.stores.protocol import LocationUnreadable

Add = Callable[..., Location]
RUNNERS = Path(__file__).resolve().parents[3] / "viewer/runners"

LISTED = """
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

ID = "1f1e53d4-98d2-65b6-8003-a1b88b75de50"

def tuple_of(number=0, **changed):
    checkpoint = {"v": 1, "id": ID, "channel_values": {"a": 1}, "channel_versions": {"a": 1}}
    config = {"configurable": {"thread_id": f"t{number}", "checkpoint_ns": "", "checkpoint_id": ID}}
    found = dict(config=config, checkpoint=checkpoint, metadata={"source": "loop", "step": 3},
        parent_config=None, pending_writes=[])
    return CheckpointTuple(**{**found, **changed})

class Saver(BaseCheckpointSaver):
    def get_tuple(self, config):
        return next(iter(self.list(config)), None)

    def list(self, config, *, filter=None, before=None, limit=None):
"""

IN_MEMORY = """
from typing import TypedDict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

class State(TypedDict):
    topic: str

saver = InMemorySaver()
graph = StateGraph(State)
graph.add_node("write", lambda state: {"topic": state["topic"] + "!"})
graph.add_edge(START, "write")
compiled = graph.compile(checkpointer=saver)
compiled.invoke({"topic": "cats"}, {"configurable": {"thread_id": "memory"}})
"""

ASYNC = """
from contextlib import asynccontextmanager
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

@asynccontextmanager
async def saver():
    async with AsyncSqliteSaver.from_conn_string("{database}") as made:
        await made.setup()
        yield made
"""


def error_of(location: Location) -> str:
    error = import_location(location).read_error
    return error.code if error else ""


def test_nothing_is_imported_before_a_person_permits_it(project: Add, tmp_path: Path) -> None:
    mark = tmp_path / "imported"
    location = project(f"open({str(mark)!r}, 'w')", is_confirmed=False)
    assert error_of(location) == "saver.not_permitted"
    assert not mark.exists()
    row = location.project
    assert row is not None
    row.confirm(None)
    assert error_of(location) == "runner.entry_point_name_missing"
    assert mark.exists()
    mark.unlink()
    row.change(interpreter=row.interpreter, environment_file="", entry_points=["other:graph"])
    assert error_of(Location.objects.get()) == "saver.not_permitted" and not mark.exists()


def test_a_saver_is_not_observed_once_its_permission_is_withdrawn(project: Add) -> None:
    location = project(IN_MEMORY)
    one = Observed(location)
    assert server_mark(one) and server_mark(one)
    assert location.project
    location.project.change(
        interpreter=location.project.interpreter, environment_file="", entry_points=["other:graph"]
    )
    # Its process has the saver open.
    assert server_mark(one) == "" and one.reader is None


def test_a_saver_in_memory_that_its_module_fills_is_read(project: Add) -> None:
    location = project(IN_MEMORY)
    assert error_of(location) == ""
    checkpoints = opened(location, "memory").checkpoints.order_by("checkpoint_id")
    assert [row.step for row in checkpoints] == [-1, 0, 1]
    assert stored_contents(checkpoints[2]).channels["topic"] == "cats!"  # type: ignore[attr-defined]


UNREADY = """
def unready(config):
    raise AttributeError("setup() was not called")

saver.get_tuple = saver.aget_tuple = unready
"""


def test_a_saver_that_needs_its_setup_to_find_a_checkpoint_lists_it(project: Add) -> None:
    location = project(IN_MEMORY + UNREADY)
    assert error_of(location) == ""
    newest = opened(location, "memory").checkpoints.order_by("checkpoint_id")[2]
    assert stored_contents(newest).channels["topic"] == "cats!"  # type: ignore[attr-defined]


def test_an_asynchronous_factory_creates_no_tables(project: Add, tmp_path: Path) -> None:
    database = tmp_path / "empty.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE other (id)")
    assert error_of(project(ASYNC.format(database=database))) == "saver.failed"
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("other",)]


FAILING = (
    ("raise ValueError('password')", "saver.failed"),
    ("return iter([None])", "saver.failed"),
    ("yield tuple_of(config={'configurable': {}})", "saver.failed"),
    ("self.put({}, {}, {}, {})", "saver.only_read"),
    ("self.delete_thread('t0')", "saver.only_read"),
    ("while True: yield tuple_of()", "saver.too_many"),
    ("import os; os._exit(3)", "saver.ended"),
    ("import sys; sys.exit(3)", "saver.ended"),
    # Its process lists them once, and uses that list for a while.
    ("yield tuple_of(config={'configurable': {'thread_id': 'x' * 2**27}})", "saver.answer_too_large"),
)


def test_a_saver_that_fails_is_a_read_error(project: Add, tmp_path: Path) -> None:
    body = tmp_path / "body.py"
    read = f"exec('def listed(self):\\n ' + open({str(body)!r}).read(), globals())"
    location = project(f"{LISTED}        {read}\n        return listed(self)\n\nsaver = Saver()\n")
    for source, code in FAILING:
        body.write_text(source)
        assert error_of(location) == code, source
        assert "password" not in str(location.read_error)
        if code == "saver.ended":
            # It may be ending still.
            savers.end_savers()


def test_checkpoints_that_are_listed_twice_count_once(project: Add) -> None:
    location = project(f"{LISTED}        return iter([tuple_of()] * 3)\n\nsaver = Saver()\n")
    assert error_of(location) == ""
    assert opened(location, "t0").checkpoints.count() == 1


def test_objects_are_not_loaded(project: Add, tmp_path: Path) -> None:
    mark = tmp_path / "called"
    source = (
        IN_MEMORY
        + f"""
import ormsgpack
named = ormsgpack.packb(["os", "mkdir", [{str(mark)!r}]])
data = ormsgpack.packb(ormsgpack.Ext(1, named))
for key in list(saver.blobs):
    if key[2] == "topic":
        saver.blobs[key] = ("msgpack", data)
"""
    )
    location = project(source)
    assert error_of(location) == ""
    newest = opened(location, "memory").checkpoints.order_by("checkpoint_id").last()
    assert newest is not None
    assert "mkdir" in str(stored_contents(newest).channels["topic"])  # type: ignore[attr-defined]
    assert not mark.exists()


def test_secrets_of_the_environment_file_are_redacted(project: Add, tmp_path: Path) -> None:
    secret = "kd83-Tz0q-Vu71-Lm5x"
    (tmp_path / "keys.env").write_text(f"SERVICE_TOKEN={secret}\n")
    location = project(IN_MEMORY.replace("cats", secret), is_confirmed=False)
    row = Project.objects.get()
    row.environment_file = str(tmp_path / "keys.env")
    row.confirm(None)
    row.save()
    location = Location.objects.get()
    assert error_of(location) == ""
    for checkpoint in opened(location, "memory").checkpoints.all():
        assert secret not in str(stored_contents(checkpoint).body)  # type: ignore[attr-defined]


def test_names_of_savers_are_checked(tmp_path: Path, db: None) -> None:
    (tmp_path / "langgraph.json").write_text('{"checkpointer": {"path": "./src/store.py:saver"}}')
    assert open_location(f"saver:{tmp_path}", [tmp_path]).path == f"saver:{tmp_path}:store:saver"
    for text in ("/etc", f"{tmp_path}:os;x:y", f"{tmp_path}/../..:a:b", "", "\0:a:b", f"{tmp_path}/no:a:b"):
        with pytest.raises(UnknownLocation):
            open_location(f"saver:{text}", [tmp_path])


def test_what_a_project_started_ends_with_its_saver(project: Add, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    started = f"open({str(file)!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))"
    assert error_of(project(f"import subprocess\n{started}\n{IN_MEMORY}")) == ""
    child = psutil.Process(int(file.read_text()))
    savers.end_savers()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 30)


@contextmanager
def copying(python: Path, folder: Path, source: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yield the process that copies a thread of a saver, and the end of the pipe that keeps it running."""
    (folder / "store.py").write_text(source)
    reading, end = os.pipe()
    command = [str(python), str(RUNNERS / "saver_runner.py"), "copy", str(folder), "store:saver"]
    command += [str(reading), "thread/id", str(folder / "copy.db")]
    with subprocess.Popen(command, pass_fds=(reading,), stdout=subprocess.PIPE) as process:
        os.close(reading)
        yield process, end
        process.kill()


def test_a_copy_ends_with_the_process_that_started_it(graph_python: Path, tmp_path: Path) -> None:
    mark = tmp_path / "imported"
    source = f"import time\nopen({str(mark)!r}, 'w')\ntime.sleep(60)\n"
    with copying(graph_python, tmp_path, source) as (process, end):
        wait_until(mark.exists)
        os.close(end)
        assert process.wait(timeout=60) == 0


def test_a_copy_does_not_wait_for_threads_of_the_project(graph_python: Path, tmp_path: Path) -> None:
    source = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\nsaver = 1\n"
    with copying(graph_python, tmp_path, source) as (process, end):
        assert process.wait(timeout=50) == 1
        os.close(end)
        assert process.stdout and b"saver.no_saver" in process.stdout.read()


STARTS_ANOTHER = """
import subprocess, time
from pathlib import Path
Path("started").write_text(str(subprocess.Popen(["sleep", "300"]).pid))
time.sleep(300)
"""


def test_a_program_that_does_not_end_is_killed_with_what_it_started(
    project: Add, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location, program = project(LISTED), tmp_path / "program.py"
    program.write_text(STARTS_ANOTHER)
    monkeypatch.setattr(savers, "_program", lambda _location: program)
    monkeypatch.setattr(savers, "MAX_SECONDS", 5)
    with pytest.raises(JobRefused, match="within 5 s"):
        savers.copy_thread(location, "t0", str(tmp_path / "copy"))
    assert location.project is not None
    started = int(Path(location.project.folder, "started").read_text())
    wait_until(lambda: not psutil.pid_exists(started) or psutil.Process(started).status() == "zombie")


@pytest.mark.parametrize("size", [-1, 2**63])
def test_a_size_that_no_column_can_hold_makes_an_answer_malformed(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    def frame(request: list[Any], _chance: random.Random) -> bytes:
        answer = hostile_savers.honest_answer(request)
        for row in answer.get("rows", ()):
            row[3] = size
        return hostile_savers.framed(ormsgpack.packb(answer))

    monkeypatch.setattr(hostile_savers, "frame_of", frame)
    with (
        hostile_savers.answering(random.Random(0)) as address,
        pytest.raises(LocationUnreadable) as malformed,
    ):
        hostile_savers.read_all(address, Counter(), [])
    assert malformed.value.message.code == "saver.malformed"
