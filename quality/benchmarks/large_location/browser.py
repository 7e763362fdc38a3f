"""The page of the longest run in a real browser: its first picture, memory and scrolling."""

import os
import shutil
from pathlib import Path
from statistics import median

import psutil
from playwright.sync_api import CDPSession, Page, sync_playwright

from quality.benchmarks.live_latency import served

GOAL_PICTURE, GOAL_MEGABYTES, GOAL_FRAMES = "1000 ms", "150 MB", 50
OPENED, SCROLL_SECONDS = 5, 10
# All work of the page's thread, and what it did.
WORK = ("TaskDuration", "ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
FIRST_PICTURE = """
    () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime
"""
# Scrolls by 30 pixels per frame, as a fast wheel does. Older rows are loaded meanwhile. Resolves with the
# times between frames in milliseconds, the distance in pixels, and the number of rows at the end.
SCROLL = """
    (seconds) => new Promise((resolve) => {
      const list = document.getElementById("lineage");
      const began = performance.now(), frames = [], from = list.scrollTop;
      let before = began;
      requestAnimationFrame(function next(now) {
        frames.push(now - before);
        before = now;
        list.scrollTop += 30;
        if (now - began < seconds * 1000) return requestAnimationFrame(next);
        resolve([frames.slice(1), list.scrollTop - from, document.querySelectorAll("#lineage .row").length]);
      });
    })
"""


def report_browser(data_folder: Path, address: str) -> None:
    """Serve the data folder, open the page of the run at this address, and print the table."""
    executable = shutil.which("chromium")
    assert executable, "chromium is not there: run `scripts/system-packages browser`"
    # Playwright runs an event loop in this thread, which Django would refuse to block.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with served(str(data_folder)) as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(link)
        print("\n| in a browser | | goal |\n|---|---:|---|")
        site = link.split("/login", maxsplit=1)[0]
        pictures = [first_picture(page, f"{site}{address}") for _opening in range(OPENED)]
        print(f"| first picture, median of {OPENED} | {median(pictures):.0f} ms | {GOAL_PICTURE} |")
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        report_memory(session, "opened")
        before = metrics(session)
        frames, distance, rows = page.evaluate(SCROLL, SCROLL_SECONDS)
        after = metrics(session)
        seconds = sum(frames) / 1000
        late = sum(frame > 1000 / GOAL_FRAMES + 1 for frame in frames) / len(frames)
        print(f"| frames a second while scrolling | {len(frames) / seconds:.0f} | {GOAL_FRAMES} |")
        print(f"| frames that are late, slowest | {late:.1%}, {max(frames):.0f} ms | |")
        worked = [f"{(after[name] - before[name]) / len(frames) * 1000:.1f}" for name in WORK]
        print(f"| work for each frame; scripts, styles, layout | {'; '.join(worked)} ms | |")
        print(f"| scrolled, rows loaded | {distance:,.0f} pixels, {rows} | |")
        report_memory(session, "scrolled")
        browser.close()


def first_picture(page: Page, address: str) -> float:
    """Open a page. Return the milliseconds until its contents were first painted."""
    page.goto(address, wait_until="load")
    page.wait_for_function(FIRST_PICTURE)
    return float(page.evaluate(FIRST_PICTURE))


def metrics(session: CDPSession) -> dict[str, float]:
    """What the browser measures of the page, such as the seconds that its thread has worked."""
    return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}


def report_memory(session: CDPSession, when: str) -> None:
    """Print the memory of the page: its process, without what it shares with others, and its objects."""
    session.send("HeapProfiler.collectGarbage")
    measured = metrics(session)
    megabytes = page_process().memory_full_info().uss // 2**20
    print(f"| memory of the page's process, {when} | {megabytes} MB | {GOAL_MEGABYTES} |")
    heap, nodes = measured["JSHeapUsedSize"] / 2**20, measured["Nodes"]
    print(f"| its JavaScript objects, its nodes | {heap:.0f} MB, {nodes:,.0f} | |", flush=True)


def page_process() -> psutil.Process:
    """The process that renders the page: the largest one of the browser's renderers."""
    ours = psutil.Process().children(recursive=True)
    found = [one for one in ours if "--type=renderer" in one.cmdline()]
    return max(found, key=lambda one: one.memory_full_info().uss)
