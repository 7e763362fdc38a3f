"""``make demo`` serves while it runs the project once, and immediately on later starts.

Its page leads a person from a checkpoint to a fork, with a real browser and CrewAI.
"""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Browser, Page

from scripts.served_demo import LINK, SITE_SETTINGS, ServedDemo, log_in, log_in_browser, started_demo
from tests.demo import fork_in_a_browser
from tests.waiting import wait_until

pytestmark = pytest.mark.engine
COMPLETE_SECONDS = 600
ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class WatchedDemo:
    """A demo observed from its login link on. ``first_page`` is the page that the link opened."""

    demo: ServedDemo
    was_finished: bool
    first_page: str


@pytest.fixture(scope="module")
def watched(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedDemo]:
    """Return ``make demo`` with its own data folder, served until the module's tests are done."""
    with started_demo(tmp_path_factory.mktemp("demo") / "data", delay=0.03) as demo:
        finished = demo.own_folder / "finished"
        was_finished = finished.exists()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        _, first_page = log_in(opener, demo.link)
        wait_until(finished.exists, COMPLETE_SECONDS)
        yield WatchedDemo(demo, was_finished, first_page)


@pytest.fixture(scope="module")
def demo_site(watched: WatchedDemo) -> ServedDemo:
    return watched.demo


def python(demo: ServedDemo, *arguments: str) -> str:
    environment = {
        **os.environ,
        "DATA_DIR": str(demo.data_folder),
        "PORT": demo.site.rpartition(":")[2],
        **SITE_SETTINGS,
    }
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout


def listed(demo: ServedDemo, store: str) -> list[dict[str, Any]]:
    """Return the checkpoints of a store of the demo as the terminal lists them. They belong to one run."""
    store = str(demo.own_folder / "newsroom" / store)
    document = json.loads(python(demo, "manage.py", "checkpoints", "list", store, "--json"))
    assert document["problems"] == []
    assert len(document["runs"]) == 1
    found: list[dict[str, Any]] = document["runs"][0]["checkpoints"]
    return found


def files(demo: ServedDemo) -> dict[str, float]:
    stores = demo.own_folder / "newsroom"
    return {str(path): path.stat().st_mtime for path in stores.rglob("*.json")}


def test_the_demo_serves_before_its_runs_have_ended(watched: WatchedDemo) -> None:
    assert not watched.was_finished
    assert "data-demo/newsroom/article" in watched.first_page


def test_no_process_outlives_the_server(engine_python: Path, tmp_path: Path) -> None:
    with started_demo(tmp_path / "data") as demo:
        wait_until(lambda: programs_of(demo))
        demo.server.kill()
        wait_until(lambda: not programs_of(demo))
    assert not (tmp_path / "data-demo/finished").exists()


def programs_of(demo: ServedDemo) -> list[psutil.Process]:
    """Return the running processes of the demo."""
    stores = str(demo.own_folder / "newsroom")
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cwd() == stores and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def test_what_ran_beside_the_server_leaves_no_zombie(demo_site: ServedDemo) -> None:
    supervisor = psutil.Process(demo_site.server.pid)
    wait_until(lambda: not zombies_of(supervisor))
    (model,) = (one for one in supervisor.children() if "offline_model" in one.cmdline())
    assert "scripts.demo_runs" not in str([one.cmdline() for one in supervisor.children()])
    assert model.status() != psutil.STATUS_ZOMBIE


def zombies_of(process: psutil.Process) -> list[psutil.Process]:
    return [child for child in process.children() if child.status() == psutil.STATUS_ZOMBIE]


def test_the_crew_was_forked_twice_and_resumed_once(demo_site: ServedDemo) -> None:
    article = listed(demo_site, "article")
    assert {checkpoint["branch"] for checkpoint in article} == {"main", "shorter-draft", "year-2030"}
    for branch in ("shorter-draft", "year-2030"):
        newest = max(
            (found for found in article if found["branch"] == branch), key=lambda one: one["event_count"]
        )
        assert (newest["units_done"], newest["units_total"]) == (4, 4)
    finished = [
        found for found in listed(demo_site, "article.db") if found["trigger"] == "crew_kickoff_completed"
    ]
    assert len(finished) == 2


def test_the_flow_and_the_agent_have_one_run_each(demo_site: ServedDemo) -> None:
    assert {found["entity"] for found in listed(demo_site, "digest")} == {"flow"}
    interview = listed(demo_site, "interview")
    assert [found["name"] for found in interview] == ["Interviewer", "Interviewer"]


def test_the_waiting_thread_was_forked_with_both_answers(demo_site: ServedDemo) -> None:
    store = str(demo_site.own_folder / "support/threads.db")
    indexed = json.loads(python(demo_site, "manage.py", "checkpoints", "list", store, "--json"))["runs"]
    branches = set()
    for thread in indexed:
        target = f"{store}#{thread['id']}"
        runs = json.loads(python(demo_site, "manage.py", "checkpoints", "list", target, "--json"))["runs"]
        branches |= {found["branch"] for run in runs for found in run["checkpoints"]}
    assert branches == {"main", "approved", "rejected"}


def test_the_edits_reached_the_model(demo_site: ServedDemo) -> None:
    article = demo_site.own_folder / "newsroom/article"
    texts = {
        branch: "".join(path.read_text() for path in (article / branch).rglob("*.json"))
        for branch in BRANCHES
    }
    assert "Forking used to mean copying a folder and hoping" in texts["shorter-draft"]
    assert "In 2030, AI checkpoints" in texts["year-2030"]
    assert "In 2030, AI checkpoints" not in texts["main"]


BRANCHES = ("main", "shorter-draft", "year-2030")


def test_a_second_instance_does_not_take_over_the_model(demo_site: ServedDemo) -> None:
    variables = demo_site.own_folder / ".env"
    before = variables.read_text()
    port = demo_site.site.rpartition(":")[2]
    again = subprocess.run(
        [sys.executable, "-m", "scripts.demo"],
        cwd=ROOT,
        env={**os.environ, "DATA_DIR": str(demo_site.data_folder), "PORT": port},
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 1
    assert f"127.0.0.1:{port} is in use" in again.stderr and "PORT=" in again.stderr
    assert variables.read_text() == before


@pytest.fixture
def page(demo_site: ServedDemo, browser: Browser) -> Iterator[Page]:
    """Return a page opened by another login link. Anything in its console fails the test."""
    link = LINK.search(python(demo_site, "manage.py", "login_link"))
    assert link
    said: list[str] = []
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    log_in_browser(page, link[0])
    yield page
    # A page that is left aborts its requests, which htmx reports as these two.
    aborted = ("htmx:sendAbort", "htmx:afterRequest")
    assert [text for text in said if not text.startswith(aborted)] == []
    context.close()


@pytest.mark.browser
def test_edit_fork_watch_and_open_the_new_branch(page: Page) -> None:
    fork_in_a_browser.open_article(page)
    fork_in_a_browser.fork_with_edits(page)
    fork_in_a_browser.watch_and_open_the_branch(page)


def test_a_second_start_runs_nothing_again(demo_site: ServedDemo) -> None:
    before = files(demo_site)
    with started_demo(demo_site.data_folder) as again:
        assert again.printed.count("CrewAI") == 0
    assert files(demo_site) == before
