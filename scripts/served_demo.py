"""Serves the demo for screenshots and tests."""

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Without the variables of a test that starts it.
OWN_SETTINGS = {"DJANGO_SETTINGS_MODULE": "checkpoint_site.settings"}
LINK = re.compile(r"http://127\.0\.0\.1:\d+/login/link/\S+")


@dataclass(frozen=True, slots=True)
class ServedDemo:
    """``link`` logs in once. ``printed`` is the output before it."""

    site: str
    link: str
    data_folder: Path
    printed: str
    server: "subprocess.Popen[str]"


@contextmanager
def served_demo(data_folder: Path, delay: float = 0.06) -> Iterator[ServedDemo]:
    """Run the demo to its end and serve it on a free port. Raise RuntimeError if it does not serve."""
    environment = {**os.environ, "DATA_DIR": str(data_folder), "DEMO_DELAY": str(delay), **OWN_SETTINGS}
    prepare = [sys.executable, "-m", "scripts.demo", "--prepare"]
    subprocess.run(prepare, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=True)
    with started_demo(data_folder, delay) as demo:
        yield demo


@contextmanager
def started_demo(data_folder: Path, delay: float = 0.06) -> Iterator[ServedDemo]:
    """Start the program of ``make demo`` on a free port. Raise RuntimeError if it does not serve."""
    port = free_port()
    environment = {
        **os.environ,
        "DATA_DIR": str(data_folder),
        "PORT": str(port),
        "DEMO_DELAY": str(delay),
        **OWN_SETTINGS,
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "scripts.demo"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout
    printed = ""
    try:
        for line in server.stdout:
            printed += line
            if link := LINK.search(line):
                # Further output must not fill the pipe.
                threading.Thread(target=server.stdout.read, daemon=True).start()
                yield ServedDemo(f"http://127.0.0.1:{port}", link[0], data_folder, printed, server)
                return
        raise RuntimeError(f"The demo ended before it was served. It said:\n{printed}")
    finally:
        server.terminate()
        server.wait()


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
