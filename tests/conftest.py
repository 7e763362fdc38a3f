"""Fixtures for all tests: an engine, an offline model, real stores, a browser."""

import fcntl
import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.management import create_contenttypes
from django.contrib.contenttypes.models import ContentType
from django.core.signals import setting_changed
from django.db import connections
from django.db.backends.sqlite3.base import DatabaseWrapper as SQLite
from django.db.models.signals import post_migrate
from django.test import Client
from django.test import utils as test_utils
from offline_model.server import OfflineModel
from playwright.sync_api import Browser, Playwright, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer

from checkpoint_site.postgresql_backend.base import DatabaseOperations
from scripts.chromium import launch_options
from tests.clients import CompactClient, render_and_record
from tests.engine_runs.graphs import WarmGraphs, record_all_threads, warm_graphs
from tests.engine_runs.model import model_server
from tests.engine_runs.newsroom import write_stores
from tests.engine_runs.prewarmed import WarmPython, shared_python
from tests.engine_runs.prewarmed_jobs import PrewarmedJobs, prewarmed_jobs_in
from tests.engine_runs.runs import environment
from tests.environments import environment_with
from tests.imported import imported_location
from tests.langgraph.postgresql.server import FORKLINE, OWNER, running
from tests.prewarmed_programs import start_as_forks
from tests.real_stores import copy_of
from tests.settings import DATA_DIR, OWN_DATABASE, SERVER, TEMPLATE_DATABASE
from tests.terminal import Terminal
from viewer.models import Location, Run
from viewer.records.accounts import teammate

# Seconds for a page to show something. A busy machine can stall for seconds.
expect.set_options(timeout=30_000)
# A shell starts what runs in the background with an ignored SIGINT, which every child would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Collecting thousands of tests, and running them, creates many objects and little garbage.
gc.set_threshold(20_000, 20, 100)
start_as_forks()
test_utils.instrumented_test_render = render_and_record  # type: ignore[attr-defined]
# Keep Django's permissions after a test that commits: creating them again takes most of such a test's time.
post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
post_migrate.disconnect(create_contenttypes)
for model in (ContentType, Permission):
    # What is not managed is not deleted.
    model._meta.managed = False
TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
DATABASE = DATA_DIR / "forkline.sqlite3"
# The fixtures with an engine's interpreter, which fixtures that run an engine depend on.
ENGINE_PYTHONS = {"engine_python", "graph_python"}
# The folders with tests that start servers, and mostly wait for them.
WAITING = {"deploy", "hosts", "postgresql", "set_up", "supervision"}
# The folders of jobs whose tests are about processes, sandboxes, proxies and checkouts. Other tests of jobs
# store the same rows, so these run with SQLite only.
OF_PROCESSES = {"code", "isolation", "keys", "prewarm"}
# The folders with tests of stores, forms, pages of runs, commands and servers. Tests of other folders execute
# almost all of their statements, so these run with SQLite only, except for files marked ``postgresql``.
REPEATED_STATEMENTS = {
    TESTS / name
    for name in (
        *("cli", "langgraph", "launching", "remote", "runners", "serving"),
        *("views/launch", "views/layout", "views/runs"),
    )
}
HAS_FAILED = pytest.StashKey[bool]()


def pytest_xdist_auto_num_workers() -> int:
    """Return five processes for each two cores: many tests wait for programs that they have started."""
    return 5 * len(os.sched_getaffinity(0)) // 2


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Mark the tests that use an engine's interpreter or rows, before ``-m`` selects by marks.

    Then sort the files: the slowest first, so that no process is left with one of them at the end. Those
    whose tests wait run beside others: by the files' names, one of another folder follows each.
    """
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if ENGINE_PYTHONS & fixtures:
            item.add_marker("engine")
        if "django_db_setup" in fixtures or item.get_closest_marker("django_db"):
            item.add_marker("rows")
        if item.path.parent.name in OF_PROCESSES:
            item.add_marker("sqlite")
        if REPEATED_STATEMENTS & set(item.path.parents) and not item.get_closest_marker("postgresql"):
            item.add_marker("repeated_statements")
    yield
    # Django's plugin has sorted the tests of each file by what they do to the database.
    slow, browser = (
        {item.path for item in items if any(item.iter_markers(mark))} for mark in ("engine", "browser")
    )
    slow |= {item.path for item in items if item.path.parent.name in WAITING}
    config.stash[BROWSER_FILES] |= {
        item.path for item in items if "browser" in getattr(item, "fixturenames", ())
    }
    name = {path: path.name for path in slow}
    items.sort(
        key=lambda one: (one.path not in slow, one.path not in browser, name.get(one.path, ""), one.path)
    )
    gc.freeze()


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, empty_data_folder: Path) -> None:
    """Copy an empty database into this process's data folder (tests/settings.py)."""
    copy_database(empty_data_folder)


def refuse_to_read_the_database(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse to open the files of this process's database: closing them would release SQLite's locks.

    ``tests.file_bytes`` reads them in another process.
    """
    if event != "open" or not is_guarded or (arguments[2] or 0) & os.O_PATH:
        return
    if str(arguments[0]).startswith(str(DATABASE)):
        raise RuntimeError(f"{arguments[0]} is opened in the process that uses it: call bytes_of")


# Whether the database has been copied.
is_guarded = False
sys.addaudithook(refuse_to_read_the_database)


def copy_database(folder: Path) -> None:
    """Replace the database of this process with the empty one in this folder."""
    global is_guarded
    if SERVER:
        create_database(OWN_DATABASE, TEMPLATE_DATABASE)
        return
    is_guarded = False
    # The rows of the matrix prepare the database after other tests have used it.
    connections.close_all()
    DATABASE.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for ending in ("", "-wal", "-shm"):
        DATABASE.with_name(f"{DATABASE.name}{ending}").unlink(missing_ok=True)
    shutil.copy(folder / DATABASE.name, DATABASE)
    is_guarded = True


def delete_rows(self: DatabaseOperations, style: object, tables: list[str], **options: Any) -> list[str]:
    """Return SQL that deletes all rows, past triggers. Truncating the tables takes fifty times as long."""
    deletes = "; ".join(f"DELETE FROM {self.quote_name(table)}" for table in tables)
    return [f"SET LOCAL session_replication_role = replica; {deletes}"]


DatabaseOperations.sql_flush = delete_rows  # type: ignore[method-assign, assignment]
sqlite: Any = SQLite.ops_class
flush_sqlite = sqlite.sql_flush


def delete_rows_and_numbers(self: object, style: object, tables: list[str], **options: Any) -> list[str]:
    """Return SQL that deletes all rows, and numbers later ones from 1 again.

    Tests share a prewarmed process, whose environment names a file with the project's number.
    """
    statements: list[str] = flush_sqlite(self, style, tables, **{**options, "reset_sequences": True})
    return statements


sqlite.sql_flush = delete_rows_and_numbers


def create_database(name: str, template: str = "template0") -> None:
    """Create a database on the PostgreSQL server of the tests, in place of one that is there."""
    with psycopg.connect(f"{SERVER} dbname=postgres", autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        server.execute(f"CREATE DATABASE {name} TEMPLATE {template}")


@pytest.fixture(autouse=True)
def working_database(request: pytest.FixtureRequest) -> Iterator[None]:
    """Replace the database after a test that has broken it, so that no other test fails."""
    yield
    if request.node.stash.get(HAS_FAILED, False) and "django_db_setup" in request.fixturenames:
        connections.close_all()
        if not SERVER and not is_intact(DATABASE):
            copy_database(request.getfixturevalue("empty_data_folder"))


def is_intact(database: Path) -> bool:
    """Return whether SQLite finds nothing wrong with a database."""
    try:
        with closing(sqlite3.connect(database)) as opened:
            opened.execute("SELECT 1 FROM django_migrations")
            return bool(opened.execute("PRAGMA quick_check").fetchone() == ("ok",))
    except sqlite3.Error:
        return False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test failed, for its fixtures, and say if ``dot`` may be why."""
    report = yield
    if report.failed:
        item.stash[HAS_FAILED] = True
        if shutil.which("dot") is None:
            report.sections.append(
                ("dot", "Graphviz's dot is not installed. Tests of graphs need it: make setup.")
            )
    return report


@pytest.fixture(autouse=True)
def served_live_server(request: pytest.FixtureRequest) -> None:
    """Allow the address of the live server."""
    if "live_server" in request.fixturenames:
        url = request.getfixturevalue("live_server").url
        if url not in settings.ALLOWED_ORIGINS:
            settings.ALLOWED_ORIGINS.append(url)


@pytest.fixture(autouse=True)
def fresh_budgets() -> None:
    """Start each test without failed logins and links."""
    from checkpoint_site.middleware import throttle

    throttle.throttle.storage.reset()


@pytest.fixture(autouse=True)
def closed_data_folder() -> Iterator[None]:
    """Start each test like a process that has not opened its data folder.

    A live server may still respond to a request, and open the former folder, after its test has ended.
    """
    from viewer.data_folder import permissions

    def close(*, setting: str, **_options: object) -> None:
        if setting == "DATA_DIR":
            permissions.discard()

    permissions.discard()
    setting_changed.connect(close)
    yield
    setting_changed.disconnect(close)
    permissions.discard()


@pytest.fixture(scope="session")
def engine_python() -> Path:
    """Return the interpreter with CrewAI: FORKLINE_ENGINE_PYTHON, or the demo's environment."""
    named = os.environ.get("FORKLINE_ENGINE_PYTHON")
    python = Path(named) if named else ROOT / "demo/.venv/bin/python"
    assert python.exists(), f"{python} is not there: run `make setup`, or set FORKLINE_ENGINE_PYTHON"
    return python


@pytest.fixture(scope="session")
def graph_python() -> Path:
    """Return the interpreter with LangGraph: FORKLINE_GRAPH_PYTHON, or the support demo's environment."""
    named = os.environ.get("FORKLINE_GRAPH_PYTHON")
    python = Path(named) if named else ROOT / "demo/support/.venv/bin/python"
    assert python.exists(), f"{python} is not there: run `make setup`, or set FORKLINE_GRAPH_PYTHON"
    return python


@pytest.fixture(scope="session")
def warm_langgraph(graph_python: Path, tmp_path_factory: pytest.TempPathFactory) -> WarmGraphs:
    """Return processes of the same interpreter that have imported LangGraph and fork for each run."""
    return warm_graphs(graph_python, shared_folder(tmp_path_factory) / "warm_langgraph", main_process())


@pytest.fixture(scope="session")
def recorded_threads(graph_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of threads, written by LangGraph once for all tests."""
    return made_once(tmp_path_factory, "graph_threads", partial(record_all_threads, python=graph_python))


@pytest.fixture(scope="session")
def warm_engine(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> WarmPython:
    """Return the same interpreter with a process that has imported CrewAI and forks for each run."""
    folder = shared_folder(tmp_path_factory) / "warm_crewai"
    with model_server() as model:
        variables = environment(model, folder)
    return shared_python(engine_python, variables, folder, "crewai", main_process())


@pytest.fixture(scope="session")
def prewarmed_jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrewarmedJobs]:
    """Return processes that fork the jobs of projects, as a worker starts them."""
    with prewarmed_jobs_in(tmp_path_factory.mktemp("prewarmed_jobs")) as jobs:
        yield jobs


@pytest.fixture
def offline_model() -> Iterator[OfflineModel]:
    """Return an offline model for one test. ``url`` is its address, ``requests`` what it received."""
    model = OfflineModel()
    model.start()
    yield model
    model.stop()


@pytest.fixture
def client() -> Client:
    return CompactClient()


@pytest.fixture
def reader(client: Client, db: None) -> Client:
    """Return a client logged in as a read-only user."""
    client.force_login(teammate("reader"))
    return client


@pytest.fixture
def runner(client: Client, db: None) -> Client:
    """Return a client logged in as a user who can run."""
    client.force_login(teammate("runner", "run"))
    return client


@pytest.fixture
def imported(db: None, tmp_path: Path) -> Callable[[str], Location]:
    """Return a function that imports a copy of a real store, such as ``1.15.30/json``."""
    return lambda name: imported_location(copy_of(name, tmp_path))


@pytest.fixture
def crew_location(imported: Callable[[str], Location]) -> Location:
    """Return a location with a crew of three tasks and a fork of it with an edited first output."""
    return imported("1.15.30/json")


@pytest.fixture
def crew_run(crew_location: Location) -> Run:
    return crew_location.runs.get()


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Return the ``checkpoints`` command, run in this process."""
    return Terminal(capsys)


@pytest.fixture(scope="session")
def written_stores(warm_engine: WarmPython, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of stores that CrewAI wrote once for all tests. Tests only read it."""
    return made_once(tmp_path_factory, "written_stores", partial(write_stores, python=warm_engine))


@pytest.fixture(scope="session")
def empty_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data folder with an empty database. Tests copy it, which takes less time than creating it."""
    return made_once(tmp_path_factory, "empty_data_folder", make_data_folder)


def make_data_folder(folder: Path) -> None:
    """Have a command create the data folder, as at a first start."""
    own = {"DATA_DIR": str(folder), "DJANGO_SETTINGS_MODULE": "checkpoint_site.settings"}
    if SERVER:
        create_database(TEMPLATE_DATABASE)
        own["DATABASE_URL"] = f"{SERVER} dbname={TEMPLATE_DATABASE}"
    command = [sys.executable, "manage.py", "checkpoints", "answer"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **own}, check=True)


@pytest.fixture(scope="session")
def server_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data of a PostgreSQL server with Forkline's tables, which servers of tests copy."""
    return made_once(tmp_path_factory, "server_data", make_server_data)


def make_server_data(folder: Path) -> None:
    """Have a command create the tables in a database that has the order of a usual server."""
    folder.mkdir(exist_ok=True)
    options = "TEMPLATE template0 ENCODING UTF8 LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8'"
    with running("forkline-pg-", kept=folder) as server, TemporaryDirectory() as data:
        with server.connected("postgres") as connection:
            connection.execute(f"CREATE DATABASE {FORKLINE} {options}")
        own = environment_with(Path(data), DATABASE_URL=server.connection(FORKLINE, OWNER))
        command = [sys.executable, "manage.py", "checkpoints", "answer"]
        subprocess.run(command, cwd=ROOT, env=own, check=True)


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder shared by all processes of the test session, created by the first that needs it."""
    folder = shared_folder(factory) / name
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            # Renamed when complete, so that another process tries again if this one fails.
            made = factory.mktemp(name)
            make(made)
            made.rename(folder)
    return folder


def main_process() -> int:
    """Return the id of the process that started all processes of the test session, or of this one."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all processes of the test session share."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def live_server(live_server: LiveServer) -> LiveServer:
    """Return Django's live server, whose address is allowed."""
    settings.ALLOWED_ORIGINS.append(live_server.url)
    return live_server


class SharedChromium:
    """A headless Chromium for consecutive files with browser tests.

    Playwright runs an event loop in this thread, within which no other can run. So it ends before a file
    without a browser, and starts again for a later file with one. Django would refuse to block that loop, and
    is allowed to as long as it runs.
    """

    def __init__(self) -> None:
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    def browser(self) -> Browser:
        """Return the browser, started if it is not running."""
        if self._browser is None:
            os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
            self._playwright = sync_playwright().start()
            self._browser = self._playwright.chromium.launch(**launch_options())
        return self._browser

    def end(self) -> None:
        """End the browser and Playwright if they are running."""
        if self._browser is not None and self._playwright is not None:
            self._browser.close()
            self._playwright.stop()
            os.environ.pop("DJANGO_ALLOW_ASYNC_UNSAFE", None)
        self._browser = self._playwright = None


CHROMIUM = pytest.StashKey[SharedChromium]()
BROWSER_FILES = pytest.StashKey[set[Path]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CHROMIUM] = SharedChromium()
    config.stash[BROWSER_FILES] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """End the browser after the fixtures of the last file that uses it."""
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path not in item.config.stash[BROWSER_FILES]:
            item.config.stash[CHROMIUM].end()


@pytest.fixture(scope="module")
def browser(pytestconfig: pytest.Config) -> Browser:
    """Return a headless Chromium. Create a ``browser.new_context()`` for each test."""
    return pytestconfig.stash[CHROMIUM].browser()
