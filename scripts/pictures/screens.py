"""``make screens``: takes every screen of the demo at four widths, light and dark, into ``screens``.

They are for looking at, and are not committed; those of each stop (``stops``) are. With a folder as argument,
the demo that was prepared there is served instead of a new one.
"""

import os
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, StorageState, ViewportSize, sync_playwright

from scripts.chromium import launch_options
from scripts.pictures.screen_rows import asking, rows_of, screens, served
from scripts.pictures.stops import FOLDER as STOPS
from scripts.pictures.stops import logged_in, take_stops
from scripts.served_demo import ROOT, ServedDemo

FOLDER = ROOT / "screens"
SIZES: dict[str, ViewportSize] = {
    "large": {"width": 1920, "height": 1080},
    "wide": {"width": 1440, "height": 900},
    "medium": {"width": 820, "height": 1180},
    "phone": {"width": 390, "height": 844},
}
# A page that refreshes is never idle: so long, what it fetches at first may take.
SETTLE_MILLISECONDS = 800


def main() -> None:
    """Take every screen."""
    os.environ["CHECKPOINT_ROOTS"] = tempfile.gettempdir()
    os.environ["EMBED_ORIGINS"] = "https://wiki.example.org"
    with tempfile.TemporaryDirectory(prefix="forkline-") as folder, served(Path(folder)) as demo:
        rows = rows_of(demo)
        addresses = screens(rows)
        FOLDER.mkdir(exist_ok=True)
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(**launch_options())
            # The link works once.
            cookies = logged_in(chromium, demo.link).context.storage_state()
            with asking(rows["question"]):
                take_all(chromium, demo, cookies, addresses)
            take_stops(chromium, demo, cookies, rows)
            chromium.close()
    print(f"{len(addresses)} screens are in {FOLDER}, and the stops in {STOPS}.")


def take_all(chromium: Browser, demo: ServedDemo, cookies: StorageState, addresses: dict[str, str]) -> None:
    """Take each screen in each size and theme. Print what is wider than its window."""
    for size, viewport in SIZES.items():
        page = chromium.new_context(storage_state=cookies, viewport=viewport).new_page()
        for name, address in addresses.items():
            answer = page.goto(demo.site + address)
            page.wait_for_timeout(SETTLE_MILLISECONDS)
            if answer and answer.status != 200:
                print(f"{name}: {answer.status}")
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                print(f"{name} is wider than {viewport['width']} px.")
            take(page, f"{name}-{size}")


def take(page: Page, name: str) -> None:
    """Take the page in both themes."""
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.screenshot(path=FOLDER / f"{name}-{theme}.png")


if __name__ == "__main__":
    main()
