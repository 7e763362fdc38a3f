"""What every test shares: an engine, a model that needs no network, real stores, a browser."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def django_db_modify_db_settings_xdist_suffix() -> None:
    """Nothing: every test process has a data folder of its own (tests/settings.py)."""


@pytest.fixture(scope="session")
def engine_python() -> Path:
    """The interpreter that has CrewAI: FORKLINE_ENGINE_PYTHON, else the demo's environment."""
    named = os.environ.get("FORKLINE_ENGINE_PYTHON")
    python = Path(named) if named else ROOT / "demo/.venv/bin/python"
    assert python.exists(), f"{python} is not there: run `make setup`, or set FORKLINE_ENGINE_PYTHON"
    return python


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
