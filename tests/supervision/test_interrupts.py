"""Signals of a run: the main thread is interrupted once, and the rest happens outside the handlers."""

import random
import signal
import subprocess
import sys
import time

import pytest

from tests.jobs.conftest import ROOT

# The main thread holds a lock nearly all the time. The callback needs it, like a reporter.
CODE = """
import os, sys, threading, time
sys.path.insert(0, "viewer/runners")
from forkline_runner import program
lock = threading.Lock()
def leave(status):
    with lock:
        os._exit(status)
def work():
    end = time.monotonic() + 100
    while time.monotonic() < end:
        with lock:
            sum(range(100_000))
        # Otherwise, nothing makes sure that another thread ever gets it.
        time.sleep(0.0001)
try:
    program.listen_for_signals(lambda: leave(130), lambda: leave(143))
    print("ready", flush=True)
    work()
except KeyboardInterrupt:
    work()
"""


@pytest.mark.parametrize("chance", range(20))
def test_pairs_of_signals_end_a_run_that_holds_a_lock(chance: int) -> None:
    child = subprocess.Popen([sys.executable, "-c", CODE], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout and child.stdout.readline() == "ready\n"
    numbers = random.Random(chance)
    for _ in range(5):
        pair = [signal.SIGINT, signal.SIGTERM]
        numbers.shuffle(pair)
        for number in pair:
            time.sleep(numbers.uniform(0, 0.001))
            if child.poll() is None:
                child.send_signal(number)
    assert child.wait(60) in {130, 143}
