"""Serves the demo for screenshots and tests."""

import os
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import django
from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parent.parent
# Without the variables of a test that starts it.
SITE_SETTINGS = {"DJANGO_SETTINGS_MODULE": "checkpoint_site.settings"}
CSRF_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
LINK = re.compile(r"http://127\.0\.0\.1:\d+/login/link/\S+")


@dataclass(frozen=True, slots=True)
class ServedDemo:
    """``link`` logs in once. ``printed`` is the output before it."""

    site: str
    link: str
    data_folder: Path
    printed: str
    server: "subprocess.Popen[str]"

    @property
    def own_folder(self) -> Path:
        """The folder with the demo's locations."""
        return self.data_folder.with_name(f"{self.data_folder.name}-demo")


@contextmanager
def served_demo(data_folder: Path, delay: float = 0.06) -> Iterator[ServedDemo]:
    """Run the demo to its end and serve it on a free port. Raise RuntimeError if it does not serve."""
    prepare = [sys.executable, "-m", "scripts.demo", "--prepare"]
    environment = {**os.environ, **_variables(data_folder, delay)}
    subprocess.run(prepare, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, check=True)
    with started_demo(data_folder, delay) as demo:
        yield demo


@contextmanager
def started_demo(data_folder: Path, delay: float = 0.06) -> Iterator[ServedDemo]:
    """Start the program of ``make demo`` on a free port. Raise RuntimeError if it does not serve."""
    port, program = str(free_port()), [sys.executable, "-m", "scripts.demo"]
    with started(program, **_variables(data_folder, delay), PORT=port) as (link, printed, server):
        yield ServedDemo(f"http://127.0.0.1:{port}", link, data_folder, printed, server)


def _variables(data_folder: Path, delay: float) -> dict[str, str]:
    return {"DATA_DIR": str(data_folder), "DEMO_DELAY": str(delay), **SITE_SETTINGS}


@contextmanager
def started(program: Sequence[str], **variables: str) -> "Iterator[tuple[str, str, subprocess.Popen[str]]]":
    """Start a program that serves, and end it. Yield its login link, its output before it, and its process.

    Raise RuntimeError if the program ends without a link.
    """
    server = subprocess.Popen(
        program,
        cwd=ROOT,
        env={**os.environ, **variables},
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
                yield link[0], printed, server
                return
        raise RuntimeError(f"The program ended before it served. It said:\n{printed}")
    finally:
        server.terminate()
        server.wait()


def log_in(opener: urllib.request.OpenerDirector, link: str) -> tuple[str, str]:
    """Press the button of a login link. Return the address and the HTML of the page that it leads to."""
    with opener.open(link, timeout=60) as answer:
        token = CSRF_TOKEN.search(answer.read().decode())
    if token is None:
        raise RuntimeError("The login link shows no button.")
    with opener.open(link, urlencode({"csrfmiddlewaretoken": token[1]}).encode(), timeout=60) as answer:
        return answer.url, answer.read().decode()


def log_in_browser(page: Page, link: str) -> None:
    """Press the button of a login link in a browser, and wait for the page that it leads to."""
    page.goto(link)
    page.locator("main form button").click()
    page.wait_for_url(lambda address: "/login/" not in address)


def set_up_django(demo: ServedDemo) -> None:
    """Set up Django on the demo's data folder."""
    os.environ |= {"DATA_DIR": str(demo.data_folder), **SITE_SETTINGS}
    django.setup()


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
