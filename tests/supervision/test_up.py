"""``manage.py up``: one command that serves, prints a link last, and shuts down."""

import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from scripts.served_demo import LINK, free_port, log_in
from tests.environments import environment_with
from tests.jobs.conftest import ROOT

UP = [sys.executable, "manage.py", "up"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run the command on an empty data folder with a location, and yield its login link."""
    folder = tmp_path_factory.mktemp("up")
    store = folder / "elsewhere" / "checkpoints"
    store.mkdir(parents=True)
    up = subprocess.Popen(
        [*UP, str(store)],
        cwd=ROOT,
        env=environment_with(folder / "data", PORT=str(free_port())),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert up.stdout
    printed = up.stdout.readline() + up.stdout.readline()
    assert printed.startswith("Serving on http://127.0.0.1:")
    link = LINK.search(printed)
    assert link, printed
    yield up, link[0]
    up.terminate()
    up.communicate()


def test_the_link_logs_in_once_and_opens_the_location(served: tuple["subprocess.Popen[str]", str]) -> None:
    _, link = served
    # A chat that makes a preview of the link, or a browser that prefetches it, does not use it.
    for method in ("GET", "HEAD"):
        visitor().open(urllib.request.Request(link, method=method)).close()
    address, page = log_in(visitor(), link)
    assert re.search(r"/locations/[0-9a-f-]{36}/$", address)
    assert "Log out" in page
    again = visitor()
    with pytest.raises(urllib.error.HTTPError) as refused:
        again.open(link)
    assert refused.value.code == 403


def test_styles_and_scripts_are_served_without_debug(served: tuple["subprocess.Popen[str]", str]) -> None:
    site = served[1].split("/login")[0]
    for path in ("css/design/base.css", "css/jobs/jobs.css", "js/live.js", "django_htmx/htmx-2.min.js"):
        with urllib.request.urlopen(f"{site}/static/{path}") as response:
            assert response.status == 200
            assert response.read()


def test_a_taken_port_is_reported(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        answer = subprocess.run(
            UP,
            cwd=ROOT,
            env=environment_with(tmp_path / "data", PORT=str(port)),
            capture_output=True,
            text=True,
        )
    assert answer.returncode == 1
    assert f"127.0.0.1:{port} is in use" in answer.stderr
    assert "PORT=" in answer.stderr


@pytest.fixture
def folder(empty_data_folder: Path, tmp_path: Path) -> Path:
    """Return a data folder with an empty database."""
    return Path(shutil.copytree(empty_data_folder, tmp_path / "data"))


def test_a_missing_location_is_reported(folder: Path, tmp_path: Path) -> None:
    answer = subprocess.run(
        [*UP, str(tmp_path / "nowhere")],
        cwd=ROOT,
        env=environment_with(folder, PORT=str(free_port())),
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1
    assert str(tmp_path / "nowhere") in answer.stderr


def test_nohup_lets_up_outlive_its_terminal(folder: Path) -> None:
    up = subprocess.Popen(
        ["nohup", *UP],
        cwd=ROOT,
        env=environment_with(folder, PORT=str(free_port())),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert up.stdout
    link = LINK.search(up.stdout.readline() + up.stdout.readline())
    assert link
    up.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        up.wait(1)
    assert "Log out" in log_in(visitor(), link[0])[1]
    up.terminate()
    assert up.wait(60) == 0


def test_stopping_up_ends_the_server_and_the_worker(served: tuple["subprocess.Popen[str]", str]) -> None:
    # The last test of the module: the others use the same server.
    up, link = served
    port = int(link.split(":")[2].split("/")[0])
    up.terminate()
    rest, _ = up.communicate(timeout=60)
    assert (up.returncode, rest) == (0, "")
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def visitor() -> urllib.request.OpenerDirector:
    """Return an HTTP client that stores cookies."""
    return urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
