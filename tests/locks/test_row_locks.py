"""Locks that protect rows, between threads and processes: with SQLite, and on a PostgreSQL server."""

import subprocess
import sys
import threading
import time

import pytest
from django.db import connection

from tests.environments import environment_with
from tests.locks.test_locks import ROOT
from viewer.data_folder.locks import exclusive_transaction, row_lock
from viewer.models import Project

HOLD = (
    "import django; django.setup(); from viewer.data_folder.locks import row_lock\n"
    "with row_lock('tests-one') as is_held: print(is_held, flush=True); input()"
)

pytestmark = pytest.mark.django_db(transaction=True)


def held_elsewhere() -> "subprocess.Popen[str]":
    """Start a process that holds the lock until it is killed."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", HOLD]
    process = subprocess.Popen(command, cwd=ROOT, env=environment_with(), text=True, **pipes)  # type: ignore[call-overload]
    assert process.stdout.readline() == "True\n"
    return process  # type: ignore[no-any-return]


def test_one_holder_at_a_time() -> None:
    with row_lock("tests-one") as one, row_lock("tests-one") as same, row_lock("tests-two") as other:
        assert (one, same, other) == (True, False, True)
    with row_lock("tests-one") as is_held:
        assert is_held


def test_a_killed_process_releases_its_lock() -> None:
    process = held_elsewhere()
    with row_lock("tests-one") as is_held:
        assert not is_held
    process.kill()
    process.wait()
    with row_lock("tests-one", wait=True) as is_held:
        assert is_held


def test_a_waiting_thread_gets_the_lock_after_its_holder() -> None:
    order = list[str]()

    def wait() -> None:
        with row_lock("tests-one", wait=True):
            order.append("second")

    with row_lock("tests-one"):
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_transactions_of_one_name_follow_each_other() -> None:
    inside, found = threading.Event(), list[bool]()

    def look_and_store() -> None:
        inside.set()
        with exclusive_transaction("tests"):
            found.append(Project.objects.filter(folder="/one").exists())
        connection.close()

    thread = threading.Thread(target=look_and_store)
    with exclusive_transaction("tests"):
        assert not Project.objects.filter(folder="/one").exists()
        thread.start()
        inside.wait()
        # The other one begins, and must not read before this one has written.
        time.sleep(0.1)
        Project.objects.create(folder="/one", interpreter="python")
    thread.join()
    assert found == [True]
