"""Takes the guide's pictures of pages whose rows ``screen_rows`` makes. ``make screenshots`` takes them last.

With a folder as argument, the demo that was prepared there is served, and only these are taken.
"""

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, sync_playwright

from scripts.chromium import launch_options
from scripts.pictures.outdated import record_sources
from scripts.pictures.screen_rows import rows_of, screens, served
from scripts.pictures.taking import edit, log_in_everywhere, take
from scripts.served_demo import ServedDemo

# The screen of each picture, and the part of the page that it shows.
PICTURES = {
    "tools": ("tools", ".plan-tools"),
    "code": ("code", ".plan-code"),
    "several-runs": ("several-runs", "#plan"),
    "scores": ("collection-scores", "#scores-title"),
    "pruned-threads": ("prune-threads", ".prune-list"),
    "replay": ("replay", ".replay-answers"),
}


def take_guide(pages: dict[str, Page], demo: ServedDemo) -> None:
    """Take every picture, in every size and both themes."""
    found = screens(rows_of(demo))
    found["replay"] = start_replay(next(iter(pages.values())), demo.site + found["calls"])
    for name, (screen, part) in PICTURES.items():
        show = show_edited if name == "several-runs" else show_part
        prepare: Callable[[Page], None] = partial(show, address=demo.site + found[screen], part=part)
        take(pages, name, prepare)
    record_sources(PICTURES)


def show_part(page: Page, address: str, part: str) -> None:
    """Open a page, and scroll to a part of it. A new thread can be pruned after a minute."""
    page.goto(address)
    for _attempt in range(20):
        if page.locator(part).count():
            break
        page.wait_for_timeout(4_000)
        page.reload()
    page.locator(part).scroll_into_view_if_needed()
    page.wait_for_load_state("networkidle")


def show_edited(page: Page, address: str, part: str) -> None:
    """Edit the year of several runs, and wait for their plan."""
    page.goto(address)
    page.get_by_label("Type", exact=True).select_option(label="An input or an entry of the state")
    page.get_by_label("Name, or the agent's role").fill("year")
    page.get_by_label("Run units with stale outputs again.").check()
    edit(page, page.get_by_label("New value"), "2030")
    page.locator(part).scroll_into_view_if_needed()


def start_replay(page: Page, address: str) -> str:
    """Replay the second of these model calls with another year, by two models. Return its address."""
    page.goto(address)
    page.locator(".call-table a").nth(1).click()
    call = page.url
    page.get_by_role("link", name="Replay", exact=True).click()
    asked = page.locator(".conversation-edit textarea").last
    edit(page, asked, asked.input_value().replace("2026", "2030"))
    edit(page, page.get_by_role("textbox", name="Models"), "openai/gpt-4o-mini, openai/gpt-4.1")
    page.get_by_label("Make 2 model calls.").check()
    page.get_by_role("button", name="Replay", exact=True).click()
    page.locator(".replay-answers ins").nth(1).wait_for(timeout=120_000)
    return urlsplit(call).path


def main() -> None:
    """Take the guide's pictures only."""
    os.environ["CHECKPOINT_ROOTS"] = tempfile.gettempdir()
    with (
        tempfile.TemporaryDirectory(prefix="forkline-") as folder,
        served(Path(folder)) as demo,
        sync_playwright() as playwright,
    ):
        chromium = playwright.chromium.launch(**launch_options())
        take_guide(log_in_everywhere(chromium, demo.link), demo)
        chromium.close()


if __name__ == "__main__":
    main()
