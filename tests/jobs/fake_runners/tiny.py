"""Shared by the fake runners: the spool, written as the real runner writes it, and marks.

A fake runner appends a line to ``marks`` in its project's folder each time it starts, so that tests count
what really ran.
"""

import importlib.util
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

VIEWER = Path(__file__).resolve().parents[3] / "viewer"
SPOOL = VIEWER / "host" / "jobs" / "spool.py"
FOLDER = Path(sys.argv[1])
CANARY = "sk-canary0123456789abcdefghij"
# No test takes as long. One that is killed leaves its runs behind.
signal.alarm(900)
# Fake runners that import forkline_runner import this module first.
sys.path.append(str(VIEWER / "runners"))


def load_spool() -> Any:
    spec = importlib.util.spec_from_file_location("spool", SPOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def begin() -> Any:
    """Leave a mark, open the spool and write the first event."""
    with open("marks", "a") as marks:
        marks.write(f"{FOLDER.name}\n")
    spool = load_spool().Spool(FOLDER)
    spool.write("started", pid=os.getpid(), engine="tiny", engine_version="1", python_version="3")
    return spool


def request() -> dict[str, Any]:
    """Return the job's request."""
    return dict(json.loads((FOLDER / "request.json").read_text()))


def wait_for(name: str) -> None:
    """Wait until a file of this name exists in the project's folder."""
    import time

    while not Path(name).exists():
        time.sleep(0.01)
