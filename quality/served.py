"""A served data folder, and a browser that is logged in to it."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
from playwright.sync_api import Page, sync_playwright

from scripts.chromium import launch_options
from scripts.served_demo import free_port, log_in_browser, started


@dataclass(frozen=True)
class Served:
    """A served data folder. ``link`` logs in once."""

    folder: Path
    link: str

    @property
    def site(self) -> str:
        """The address of the server, without a path."""
        return self.link.partition("/login")[0]


@contextmanager
def served(data_folder: Path | None = None) -> Iterator[Served]:
    """Serve a data folder, or a temporary one, with jobs that only write events. Set up Django on it."""
    with ExitStack() as open_things:
        folder = data_folder or Path(
            open_things.enter_context(tempfile.TemporaryDirectory(prefix="forkline-bench-"))
        )
        os.environ |= {
            "DATA_DIR": str(folder),
            "PORT": str(free_port()),
            "DJANGO_SETTINGS_MODULE": "quality.benchmarks.live.settings",
        }
        link, _printed, _server = open_things.enter_context(started([sys.executable, "manage.py", "up"]))
        django.setup()
        yield Served(folder, link)


@contextmanager
def logged_in_page(link: str, **options: Any) -> Iterator[Page]:
    """Yield a page of a new browser that has followed the login link."""
    # Playwright runs an event loop in this thread, which Django would refuse to block.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())
        page = browser.new_page(**options)
        log_in_browser(page, link)
        yield page
        browser.close()
