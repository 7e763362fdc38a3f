"""The page of the longest run in a real browser: its first picture, memory and scrolling.

The frames of a plain list of the same size, scrolled alike, are what the machine is able to draw.
"""

from pathlib import Path
from statistics import median

import psutil
from playwright.sync_api import CDPSession, Page

from quality.benchmarks.timing import processor_seconds
from quality.served import logged_in_page, served
from quality.tables import print_heading, print_row

GOAL_PICTURE, GOAL_MEGABYTES, GOAL_FRAMES = "1000 ms", "150 MB", 50
OPENED, SCROLL_SECONDS = 5, 10
# All work of the page's thread, and what it did.
WORK = ("TaskDuration", "ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
FIRST_PICTURE = """
    () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime
"""
PLAIN_ROWS = 3000
PLAIN = """
    <!doctype html><title>Plain rows</title>
    <style>
      body { margin: 0; font: 13px/30px sans-serif }
      #lineage { width: 918px; height: 740px; overflow: auto }
    </style>
    <div id="lineage">
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
    viewport = {"width": 1440, "height": 900}
    with served(data_folder) as dashboard, logged_in_page(dashboard.link, viewport=viewport) as page:
        print()
        print_heading("in a browser", "", "goal")
        pictures = [first_picture(page, f"{dashboard.site}{address}") for _opening in range(OPENED)]
        print_row(f"first picture, median of {OPENED}", f"{median(pictures):.0f} ms", GOAL_PICTURE)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        report_memory(session, "opened")
        report_scrolling(page, session)
        report_memory(session, "scrolled")
        page.goto("about:blank")
        page.set_content(PLAIN + "<div>A plain row with a few words, 12:00:00</div>" * PLAIN_ROWS)
        report_scrolling(page, session, "plain rows: ")


def report_scrolling(page: Page, session: CDPSession, what: str = "") -> None:
    """Scroll the list of a page, and print its frames and what they cost."""
    process = [page_process()]
    before, began = metrics(session), processor_seconds(process)
    frames, distance, rows = page.evaluate(SCROLL, SCROLL_SECONDS)
    after, processor = metrics(session), (processor_seconds(process) - began) / len(frames) * 1000
    late = sum(frame > 1000 / GOAL_FRAMES + 1 for frame in frames) / len(frames)
    rate, goal = len(frames) / sum(frames) * 1000, "" if what else GOAL_FRAMES
    print_row(f"{what}frames a second while scrolling", f"{rate:.0f}", goal)
    print_row(f"{what}frames that are late, slowest", f"{late:.1%}, {max(frames):.0f} ms", "")
    parts = [f"{(after[name] - before[name]) / len(frames) * 1000:.1f}" for name in WORK]
    print_row(f"{what}work for each frame; scripts, styles, layout", f"{'; '.join(parts)} ms", "")
    print_row(f"{what}processor time of the page's process for each frame", f"{processor:.1f} ms", "")
    print_row(f"{what}scrolled, rows loaded", f"{distance:,.0f} pixels, {rows}", "")


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
    print_row(f"memory of the page's process, {when}", f"{megabytes} MB", GOAL_MEGABYTES)
    heap, nodes = measured["JSHeapUsedSize"] / 2**20, measured["Nodes"]
    print_row("its JavaScript objects, its nodes", f"{heap:.0f} MB, {nodes:,.0f}", "")


def page_process() -> psutil.Process:
    """The process that renders the page: the largest one of the browser's renderers."""
    ours = psutil.Process().children(recursive=True)
    found = [one for one in ours if "--type=renderer" in one.cmdline()]
    return max(found, key=lambda one: one.memory_full_info().uss)
