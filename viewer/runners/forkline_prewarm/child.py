"""A process that was just forked becomes a job's child: it is told which, and looks whether it may be."""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from forkline_prewarm.surroundings import Surroundings

# For who has asked for a child to tell it what to do.
SECONDS_TO_ASK = 10
MOST_REQUEST_BYTES = 1024 * 1024
MOST_DESCRIPTORS = 2


def become(asked: socket.socket, runner: Path, prepared: ModuleType, found: Surroundings) -> None:
    """Be the child that is asked for, and run it. Returns at once where nobody asks any more, or where the
    job has to run cold.

    What it is to do comes to this process alone, so that keys never reach the one that waits.
    """
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        with asked:
            agreed = agree(asked, prepared, found)
    except OSError:
        return  # nobody listens any more
    if agreed:
        job_folder, log = agreed
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        run(runner, job_folder)


def agree(asked: socket.socket, prepared: ModuleType, found: Surroundings) -> tuple[str, int] | None:
    """The job's folder and its log, once both sides know that it runs here. None where it does not.

    Raises OSError where the other side has gone.
    """
    asked.settimeout(SECONDS_TO_ASK)
    asked.send(json.dumps({"pid": os.getpid()}).encode())
    data, descriptors, flags, _ = socket.recv_fds(asked, MOST_REQUEST_BYTES, MOST_DESCRIPTORS)
    if not data or len(descriptors) < MOST_DESCRIPTORS or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        return None
    request = json.loads(data)
    try:
        reason = enter(request, prepared, found)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    asked.send(json.dumps({"reason": reason}).encode())
    return None if reason else (request["job_folder"], descriptors[1])


def enter(request: dict[str, Any], prepared: ModuleType, found: Surroundings) -> str:
    """Have what a cold child would have around it. Why that cannot be, in words; empty where it is so."""
    folder = Path(request["folder"])
    os.chdir(folder)
    found.enter(request["environment"])
    if hasattr(prepared, "begin"):
        prepared.begin()
    time.tzset()
    numbers: Any = sys.modules.get("numpy.random")
    if numbers is not None:
        # Python's own random numbers begin anew after a fork by themselves.
        numbers.seed()
    variable = found.other_variable(request["environment"])
    if variable:
        return f"{variable} has another value than when the engine was imported"
    module = found.other_module(folder)
    return f"the project has its own {module}" if module else ""


def run(runner: Path, folder: str) -> None:
    """Run the runner's program as the interpreter itself would."""
    sys.argv = [str(runner), folder]
    sys.path[0] = str(runner.parent)
    runpy.run_path(str(runner), run_name="__main__")
