"""What every test shares: an engine, a model that needs no network, real stores, a browser."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.core.signals import setting_changed
from offline_model.server import OfflineModel
from playwright.sync_api import Browser, expect, sync_playwright
from pytest_django.live_server_helper import LiveServer

from scripts.served_demo import ServedDemo, served_demo
from tests.runners.children import environment
from tests.runners.model_server import model_server
from tests.runners.warm_start import WarmPython, warm_python

# How long a page may take to show something: a busy machine stands still for seconds.
expect.set_options(timeout=30_000)
ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "demo"
# What the demo's program is asked to run, and where it writes.
DEMO_RUNS = {"article": "article", "article.db": "article", "digest": "digest", "interview": "interview"}
FAKE_KEY = "sk-demo-0123456789abcdefghijklmnopqrstuvwxyz0123"


@pytest.fixture(scope="session")
def django_db_modify_db_settings_xdist_suffix() -> None:
    """Nothing: every test process has a data folder of its own (tests/settings.py)."""


@pytest.fixture(autouse=True)
def served_live_server(request: pytest.FixtureRequest) -> None:
    """The live server's address is one that is served."""
    if "live_server" in request.fixturenames:
        url = request.getfixturevalue("live_server").url
        if url not in settings.ALLOWED_ORIGINS:
            settings.ALLOWED_ORIGINS.append(url)


@pytest.fixture(autouse=True)
def forgotten_data_folder() -> Iterator[None]:
    """Each test starts as a process that has not opened its data folder.

    A request that a live server still answers may open the former one after its test has ended.
    """
    from viewer.data_folder import identity

    def forget(*, setting: str, **_options: object) -> None:
        if setting == "DATA_DIR":
            identity.forget()

    identity.forget()
    setting_changed.connect(forget)
    yield
    setting_changed.disconnect(forget)
    identity.forget()


@pytest.fixture(scope="session")
def engine_python() -> Path:
    """The interpreter that has CrewAI: FORKLINE_ENGINE_PYTHON, else the demo's environment."""
    named = os.environ.get("FORKLINE_ENGINE_PYTHON")
    python = Path(named) if named else ROOT / "demo/.venv/bin/python"
    assert python.exists(), f"{python} is not there: run `make setup`, or set FORKLINE_ENGINE_PYTHON"
    return python


@pytest.fixture(scope="session")
def warm_engine(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmPython]:
    """The same interpreter, with a process of it that has imported CrewAI and copies itself for each run."""
    folder = tmp_path_factory.mktemp("warm")
    with model_server() as model, warm_python(engine_python, environment(model, folder), folder) as python:
        yield python


@pytest.fixture
def offline_model() -> Iterator[OfflineModel]:
    """A model of this test's own: ``url`` is its address, ``requests`` what it was asked."""
    model = OfflineModel()
    model.start()
    yield model
    model.stop()


@pytest.fixture
def demo_env_file(tmp_path: Path, offline_model: OfflineModel) -> Path:
    """The demo project's environment file, which leads to ``offline_model``."""
    path = tmp_path / "demo.env"
    path.write_text("".join(f"{name}={value}\n" for name, value in engine_variables(offline_model).items()))
    return path


@pytest.fixture(scope="session")
def written_stores(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of stores that real CrewAI wrote, once for all tests. To be read only."""
    stores = tmp_path_factory.mktemp("written_stores")
    write_stores(stores, engine_python)
    return stores


@pytest.fixture
def demo_stores(written_stores: Path, tmp_path: Path) -> Path:
    """A copy of the demo's stores for one test: article/, article.db, digest/ and interview/."""
    return Path(shutil.copytree(written_stores, tmp_path / "stores"))


def engine_variables(model: OfflineModel) -> dict[str, str]:
    """What the demo's program finds in its environment."""
    return {
        "OPENAI_API_KEY": FAKE_KEY,
        "OPENAI_BASE_URL": model.url,
        "CREWAI_TRACING_ENABLED": "false",
        "CREWAI_DISABLE_TELEMETRY": "true",
    }


def write_stores(folder: Path, python: Path) -> None:
    """Run the demo's crew, flow and agent, each once a store, side by side."""
    model = OfflineModel()
    model.start()
    environment = {**os.environ, **engine_variables(model), "PYTHONPATH": str(DEMO / "src")}
    children = {
        store: subprocess.Popen(
            [python, "-m", "newsroom.main", what, "--checkpoints", store],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for store, what in DEMO_RUNS.items()
    }
    for store, child in children.items():
        output, _ = child.communicate(timeout=300)
        assert child.returncode == 0, f"{store}: {output[-3000:]}"
    model.stop()


@pytest.fixture(scope="module")
def demo_site(engine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedDemo]:
    """``make demo``, run in a data folder of its own and served until the module's tests are done."""
    with served_demo(tmp_path_factory.mktemp("demo") / "data", delay=0.03) as demo:
        yield demo


@pytest.fixture(scope="session")
def live_server(live_server: LiveServer) -> LiveServer:
    """Django's own server in this process, which answers at its address."""
    settings.ALLOWED_ORIGINS.append(live_server.url)
    return live_server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium. Give each test its own ``browser.new_context()``."""
    executable = shutil.which("chromium")
    assert executable, "chromium is not there: run `scripts/system-packages browser`"
    patch = pytest.MonkeyPatch()
    # Playwright keeps an event loop in this thread, which Django would take for its own.
    patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield chromium
        chromium.close()
    patch.undo()
