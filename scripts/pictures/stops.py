"""Takes a picture of each stop on the way of somebody new: at four widths, light above dark.

``make screens`` writes them to ``docs/pictures/stops``, for docs/stops.md. With a folder as argument, the
demo that was prepared there is served instead of a new one.
"""

import os
import shutil
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, StorageState, ViewportSize, sync_playwright

from scripts.chromium import launch_options
from scripts.pictures.outdated import record_sources
from scripts.pictures.screen_rows import asking, rows_of, served
from scripts.pictures.taking import edit, start_fork
from scripts.served_demo import ROOT, ServedDemo, free_port, log_in_browser, started

FOLDER = ROOT / "docs/pictures/stops"
RECORDED = ROOT / "tests/recorded_stores"
WIDTHS: tuple[ViewportSize, ...] = (
    {"width": 390, "height": 844},
    {"width": 820, "height": 1180},
    {"width": 1440, "height": 900},
    {"width": 1920, "height": 1080},
)
THEMES = ("light", "dark")
# The height of each picture of a sheet, in pixels, and the space around it.
HEIGHT, SPACE = 620, 10
BEHIND = "#8a8a86"
# What a page fetches after it has loaded takes at most so long.
SETTLE_MILLISECONDS = 600


def take_stops(chromium: Browser, demo: ServedDemo, cookies: StorageState, rows: dict[str, Any]) -> None:
    """Take every stop of the demo that is served."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    take_empty_install(chromium)
    page = chromium.new_context(storage_state=cookies).new_page()
    run, start, forked = rows["run"], rows["start"], rows["forked"]
    with asking(rows["question"]):
        shown = {
            "read": f"/runs/{run.uid}/?at={forked.checkpoint_id}",
            "answer": f"/runs/{rows['waiting'].run.uid}/jump/?to=waiting",
            "inbox": "/inbox/",
            "compare": f"/compare/?a={run.uid}/{start.checkpoint_id}&b={run.uid}/{forked.checkpoint_id}",
            "publish": f"/checkpoints/{rows['draft'].pk}/publish/",
        }
        for name, address in shown.items():
            page.goto(demo.site + address)
            take(page, name)
    page.goto(f"{demo.site}/locations/{rows['location'].uid}/prune/?days=0")
    take(page, "delete")
    page.goto(f"{demo.site}/checkpoints/{rows['early'].pk}/fork/")
    edit(page, page.get_by_label("year", exact=True), "2031")
    page.evaluate("scrollTo(0, 0)")
    take(page, "fork")
    start_fork(page)
    # The page goes with the new branch.
    page.locator(".detail h2", has_text="year-2031").wait_for(timeout=60_000)
    take(page, "follow")
    record_sources(["stops"])


def take_empty_install(chromium: Browser) -> None:
    """Serve an empty data folder, and take its first page."""
    with tempfile.TemporaryDirectory(prefix="forkline-") as folder:
        projects = Path(folder, "projects")
        shutil.copytree(RECORDED / "1.15.30/json", projects / "newsroom/.checkpoints")
        (projects / "support").mkdir()
        shutil.copy(RECORDED / "langgraph/lg12.db", projects / "support/threads.db")
        program = [sys.executable, "manage.py", "up"]
        variables = {"DATA_DIR": f"{folder}/data", "CHECKPOINT_ROOTS": str(projects)}
        with started(program, **variables, PORT=str(free_port())) as (link, _printed, _server):
            page = logged_in(chromium, link)
            page.wait_for_load_state("networkidle")
            take(page, "start")
            page.context.close()


def logged_in(chromium: Browser, link: str) -> Page:
    """Return a page on which a login link was opened."""
    page = chromium.new_context().new_page()
    log_in_browser(page, link)
    return page


def take(page: Page, name: str) -> None:
    """Write the sheet of a page that is open, at each width."""
    pictures = []
    for viewport in WIDTHS:
        page.set_viewport_size(viewport)
        page.wait_for_timeout(SETTLE_MILLISECONDS)
        pictures.append(themes_of(page))
    write_sheet(pictures, name)


def themes_of(page: Page) -> list[Image.Image]:
    """Return a picture of the page in each theme."""
    pictures = []
    for theme in THEMES:
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        pictures.append(Image.open(BytesIO(page.screenshot())).convert("RGB"))
    return pictures


def write_sheet(pictures: list[list[Image.Image]], name: str) -> None:
    """Write the pictures of a page as one: a column for each width, and a row for each theme."""
    columns = [[scaled(one) for one in column] for column in pictures]
    width = sum(column[0].width + SPACE for column in columns) + SPACE
    sheet = Image.new("RGB", (width, (HEIGHT + SPACE) * len(THEMES) + SPACE), BEHIND)
    left = SPACE
    for column in columns:
        for number, picture in enumerate(column):
            sheet.paste(picture, (left, SPACE + number * (HEIGHT + SPACE)))
        left += column[0].width + SPACE
    sheet.save(FOLDER / f"{name}.webp", quality=72, method=6)


def scaled(picture: Image.Image) -> Image.Image:
    """Return a picture with the height of a sheet's row."""
    size = (round(picture.width * HEIGHT / picture.height), HEIGHT)
    return picture.resize(size, Image.Resampling.LANCZOS)


def main() -> None:
    """Take the stops only."""
    os.environ["CHECKPOINT_ROOTS"] = tempfile.gettempdir()
    with tempfile.TemporaryDirectory(prefix="forkline-") as folder, served(Path(folder)) as demo:
        rows = rows_of(demo)
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(**launch_options())
            take_stops(chromium, demo, logged_in(chromium, demo.link).context.storage_state(), rows)
            chromium.close()


if __name__ == "__main__":
    main()
