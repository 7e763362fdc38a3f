"""Turns a forked process into the runner of a job, after checking that the job can run in it."""

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

# How long the child waits for the request.
REQUEST_SECONDS = 10
MAX_REQUEST_BYTES = 1024 * 1024
MAX_DESCRIPTORS = 2


def become(connection: socket.socket, runner: Path, prepared: ModuleType, found: Surroundings) -> None:
    """Receive a job's request and run it. Return if the other side has gone, or the job must start cold.

    Only this process receives the request, so that keys never reach the waiting process.
    """
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    try:
        with connection:
            agreed = agree(connection, prepared, found)
    except OSError:
        return  # the other side has gone
    if agreed:
        job_folder, log = agreed
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        run(runner, job_folder)


def agree(connection: socket.socket, prepared: ModuleType, found: Surroundings) -> tuple[str, int] | None:
    """Return the job's folder and log once both sides know that it runs here, or None if it does not.

    Raises OSError if the other side has gone.
    """
    connection.settimeout(REQUEST_SECONDS)
    connection.send(json.dumps({"pid": os.getpid()}).encode())
    data, descriptors, flags, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, MAX_DESCRIPTORS)
    if not data or len(descriptors) < MAX_DESCRIPTORS or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        return None
    request = json.loads(data)
    try:
        reason = enter(request, prepared, found)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    connection.send(json.dumps({"reason": reason}).encode())
    return None if reason else (request["job_folder"], descriptors[1])


def enter(request: dict[str, Any], prepared: ModuleType, found: Surroundings) -> str:
    """Set up the process like a cold start. Return why that is impossible, or an empty string."""
    folder = Path(request["folder"])
    os.chdir(folder)
    found.enter(request["environment"])
    if hasattr(prepared, "begin"):
        prepared.begin()
    time.tzset()
    numbers: Any = sys.modules.get("numpy.random")
    if numbers is not None:
        # Python reseeds its own random numbers after a fork.
        numbers.seed()
    variable = found.other_variable(request["environment"])
    if variable:
        return f"{variable} has another value than when the engine was imported"
    module = found.other_module(folder)
    return f"the project has its own {module}" if module else ""


def run(runner: Path, folder: str) -> None:
    """Run the runner's program as the interpreter would."""
    sys.argv = [str(runner), folder]
    sys.path[0] = str(runner.parent)
    runpy.run_path(str(runner), run_name="__main__")
