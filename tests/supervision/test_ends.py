"""However ``up`` and ``make`` end, none of their processes is left; signals in any order end a program."""

import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from scripts.served_demo import LINK, free_port
from tests.environments import environment_with
from tests.jobs.conftest import ROOT
from tests.waiting import wait_until
from viewer.host.jobs.processes import living

UP = [sys.executable, "manage.py", "up"]

# Without the installation of the environment, which exists.
MAKE = ["make", "-o", "web", "up"]
PAIRS = 100
# A signal after Python has removed its handlers ends a process that was about to end.
ENDED = {0, -signal.SIGTERM, -signal.SIGINT}
# Its handlers are set by then.
WORKER_CODE = """
import os
import threading
from viewer.host.jobs.following import stopping
from viewer.cli.supervision import call_at_signal
import signal
call_at_signal((signal.SIGTERM, signal.SIGINT), stopping.set)
print(os.getpid(), flush=True)
while not stopping.wait(0.001):
    pass
"""


def started(command: list[str], folder: Path, port: int) -> "subprocess.Popen[str]":
    """Start the command and return it once it has printed its link."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment_with(folder, PORT=str(port)), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    while not LINK.search(process.stdout.readline()):
        assert process.poll() is None
    return process


def tree(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    ours = psutil.Process(process.pid)
    return [ours, *ours.children(recursive=True)]


@pytest.fixture
def folder(empty_data_folder: Path, tmp_path: Path) -> Iterator[Path]:
    yield Path(shutil.copytree(empty_data_folder, tmp_path / "data"))
    for process in psutil.process_iter():
        try:
            if process.environ().get("DATA_DIR") == str(tmp_path / "data"):
                process.kill()
        except psutil.Error:
            continue


def have_ended(processes: list[psutil.Process]) -> bool:
    return not living(processes)


def was_restarted(up: "subprocess.Popen[str]", part: str, before: int) -> bool:
    """Return whether a new process of this command has started."""
    return any(one.pid != before for one in those_with(up, part))


def those_with(up: "subprocess.Popen[str]", part: str) -> list[psutil.Process]:
    found = []
    for one in tree(up)[1:]:
        with suppress(psutil.Error):
            if part in one.cmdline():
                found.append(one)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("command", [UP, MAKE], ids=["up", "make"])
def test_no_process_outlives_up(command: list[str], number: signal.Signals, folder: Path) -> None:
    process = started(command, folder, free_port())
    processes = tree(process)
    assert len(processes) >= 3
    process.send_signal(number)
    process.wait(60)
    wait_until(lambda: have_ended(processes))


def test_a_killed_program_is_restarted_with_the_reason(folder: Path) -> None:
    port = free_port()
    up = subprocess.Popen(
        UP,
        cwd=ROOT,
        env=environment_with(folder, PORT=str(port)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert up.stdout and up.stderr
    while not LINK.search(up.stdout.readline()):
        assert up.poll() is None
    for name, part in (("web server", "checkpoint_site.server"), ("worker", "worker")):
        (victim,) = those_with(up, part)
        victim.kill()
        wait_until(partial(was_restarted, up, part, victim.pid))
        while name not in (line := up.stderr.readline()):
            assert line
        assert re.search(rf"The {name} was ended by SIGKILL, \d+ s after its start", line)
    up.terminate()
    assert up.wait(60) == 0


def test_the_process_that_has_the_port_is_named(folder: Path) -> None:
    port = free_port()
    listen = f"import socket,time; s=socket.create_server(('127.0.0.1',{port}))"
    code = f"{listen}; print(1, flush=True); time.sleep(99)"
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert other.stdout and other.stdout.readline()
    answer = subprocess.run(
        UP, cwd=ROOT, env=environment_with(folder, PORT=str(port)), capture_output=True, text=True
    )
    other.kill()
    other.wait()
    assert answer.returncode == 1
    assert f"127.0.0.1:{port} is in use by {sys.executable} -c import socket" in answer.stderr
    assert f"(process {other.pid})" in answer.stderr


def send_pairs(process: "subprocess.Popen[str]", count: int) -> None:
    """Send SIGINT and SIGTERM in either order at random short intervals."""
    chance = random.Random(count)
    for _ in range(count):
        pair = [signal.SIGINT, signal.SIGTERM]
        chance.shuffle(pair)
        for number in pair:
            process.send_signal(number)
            time.sleep(chance.uniform(0, 0.0004))


def test_a_hundred_pairs_of_signals_end_up(folder: Path) -> None:
    up = started(UP, folder, free_port())
    processes = tree(up)
    send_pairs(up, PAIRS)
    assert up.wait(60) in ENDED
    wait_until(lambda: have_ended(processes))


def test_a_hundred_pairs_of_signals_end_a_worker(folder: Path) -> None:
    command = [sys.executable, "-m", "django", "worker"]
    worker = subprocess.Popen(
        command, cwd=ROOT, env=environment_with(folder, PORT=str(free_port())), text=True
    )
    # It holds this lock once it has set its handlers.
    wait_until(lambda: (folder / "worker.lock").exists() and (folder / "worker.lock").read_text())
    send_pairs(worker, PAIRS)
    assert worker.wait(60) in ENDED


def test_a_thread_that_waits_for_the_signal_event_always_ends() -> None:
    """Run a worker's loop a hundred times."""
    # Imported once, not in each subprocess.
    setup = "import os, django; django.setup(); import viewer.host.jobs.following\n"
    env = environment_with()
    code = f"""{setup}
for _ in range(100):
    if (pid := os.fork()) == 0:
        exec({WORKER_CODE!r})
        os._exit(0)
    os.waitpid(pid, 0)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout
    for _ in range(100):
        child = psutil.Process(int(parent.stdout.readline()))
        for number in (signal.SIGINT, signal.SIGTERM):
            time.sleep(random.uniform(0, 0.002))
            try:
                child.send_signal(number)
            except psutil.NoSuchProcess:
                break
        wait_until(partial(have_ended, [child]))
    assert parent.wait(60) == 0
