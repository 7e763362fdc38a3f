"""The ``forkline`` command, installed from a wheel into an empty environment and run in another folder."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.request import HTTPCookieProcessor, OpenerDirector, Request, build_opener

import pytest

from scripts.served_demo import LINK, free_port, log_in

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / "tests/recorded_stores/1.15.30/json"
UV = Path(sys.executable).parent / "uv"


@pytest.fixture(scope="module")
def forkline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the command, installed from a wheel of this checkout."""
    folder = tmp_path_factory.mktemp("installed")
    for arguments in (
        ["build", "-q", "--wheel", "-o", str(folder / "wheel"), str(ROOT)],
        ["venv", "-q", "-p", sys.executable, str(folder / "environment")],
    ):
        subprocess.run([UV, *arguments], check=True)
    (wheel,) = (folder / "wheel").glob("*.whl")
    python = folder / "environment/bin/python"
    subprocess.run([UV, "pip", "install", "-q", "-p", python, wheel], check=True)
    return folder / "environment/bin/forkline"


@dataclass(frozen=True)
class Project:
    """A folder with checkpoints in which ``forkline`` runs."""

    folder: Path
    environment: dict[str, str]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return project_in(tmp_path)


def project_in(folder: Path) -> Project:
    """Return a project with checkpoints and without a data folder."""
    shutil.copytree(STORE, folder / "project/.checkpoints")
    stored = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    environment = {**stored, "XDG_DATA_HOME": str(folder / "data"), "PORT": str(free_port())}
    return Project(folder / "project", environment)


@dataclass(frozen=True)
class Visit:
    """A browser that used the printed login link, and the page that the link opened."""

    site: str
    browser: OpenerDirector
    first_page: str


@pytest.fixture(scope="module")
def visit(served: str) -> Visit:
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    return Visit(served.partition("/login")[0], browser, log_in(browser, served)[1])


@pytest.fixture(scope="module")
def served(forkline: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the login link of ``forkline``, started without arguments in the project's folder."""
    project = project_in(tmp_path_factory.mktemp("served"))
    server = subprocess.Popen(
        [forkline],
        cwd=project.folder,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout
    try:
        printed = ""
        for line in server.stdout:
            printed += line
            if link := LINK.search(line):
                yield link[0]
                return
        pytest.fail(f"It ended without a login link: {printed}")
    finally:
        server.terminate()
        server.wait()


def run(forkline: Path, project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [forkline, *arguments], cwd=project.folder, env=project.environment, capture_output=True, text=True
    )


def test_the_command_lists_another_folder_and_stores_its_data_in_the_users_data_folder(
    forkline: Path, project: Project
) -> None:
    listed = run(forkline, project, "list", ".checkpoints", "--json")

    assert listed.returncode == 0, listed.stderr
    stored = len(list((project.folder / ".checkpoints").rglob("*.json")))
    assert sum(len(found["checkpoints"]) for found in json.loads(listed.stdout)["runs"]) == stored
    assert (Path(project.environment["XDG_DATA_HOME"]) / "forkline/forkline.sqlite3").exists()


def test_without_arguments_it_serves_the_checkpoints_of_the_folder(visit: Visit) -> None:
    page = visit.first_page

    assert ".checkpoints" in page
    styles = re.findall(r'href="(/static/[^"]+\.css)"', page)
    assert styles, page[:2000]
    assert all(visit.browser.open(visit.site + style).status == 200 for style in styles)


def test_its_pages_are_in_the_language_of_the_browser(visit: Visit) -> None:
    arabic = Request(f"{visit.site}/", headers={"Accept-Language": "ar"})

    assert '<html lang="ar" dir="rtl"' in visit.browser.open(arabic).read().decode()


def test_without_checkpoints_the_command_asks_for_a_location(forkline: Path, project: Project) -> None:
    shutil.rmtree(project.folder / ".checkpoints")

    refused = run(forkline, project)

    assert refused.returncode == 1
    assert "forkline up LOCATION" in refused.stderr


def test_help_names_every_subcommand(forkline: Path, project: Project) -> None:
    printed = run(forkline, project, "--help").stdout

    assert all(name in printed for name in ("up", "list", "info", "fork", "resume", "run", "answer"))
    assert "usage: forkline list " in run(forkline, project, "list", "--help").stdout
