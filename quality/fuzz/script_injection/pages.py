"""Shows hundreds of script injection payloads in every text of every page, in a real browser.

Passes if no script runs even with the Content Security Policy disabled, the policy reports no violation, no
foreign address is requested, and no text has become markup.
"""

import asyncio
import socketserver
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from asgiref.sync import sync_to_async
from playwright.async_api import Dialog, Page, async_playwright

from quality.fuzz.script_injection.browser import Seen, read, visit, visit_tabs, watched_context
from quality.fuzz.script_injection.groups import Group, made_groups
from quality.fuzz.script_injection.payloads import filled, payload_forms
from quality.fuzz.script_injection.rows import make_events
from quality.served import Served, served
from quality.tables import print_heading, print_row
from scripts.chromium import launch_options

if TYPE_CHECKING:
    from viewer.models import Job

PAGES_AT_ONCE = 2
FRAMES_A_PAGE = 60
# The first tab is open initially.
TABS = ("tasks", "inputs", "state", "events", "raw", "overview")
LISTS = ("/", "/jobs/", "/jobs/waiting/", "/inbox/", "/inbox/waiting/")
# Contexts without escaping: in text, and in an attribute with either kind of quotes.
UNESCAPED = (
    "<!doctype html><body>{}",
    '<!doctype html><input value="{}">',
    "<!doctype html><input value='{}'>",
)


def main() -> int:
    """Print the tables. Return 1 if something ran, was requested, or was not visible, else 0."""
    with tempfile.TemporaryDirectory(prefix="forkline-quality-") as folder, listener() as (host, asked):
        payloads = {n: filled(form, n, host) for n, form in enumerate(payload_forms(), 1)}
        (Path(folder) / "data").mkdir()
        with served(Path(folder) / "data") as dashboard:
            groups = made_groups(Path(folder), payloads)
            seen = asyncio.run(visited(dashboard, groups))
        for one in seen:
            one.requests += sorted(asked)
        asked.clear()
        acting = asyncio.run(acting_unescaped(payloads, asked))
    return report(payloads, seen, acting)


@contextmanager
def listener() -> Iterator[tuple[str, set[str]]]:
    """Yield an address that must not be requested, and the list of requests that it received."""
    asked: set[str] = set()

    class Note(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked.add(self.rfile.readline().decode("latin-1").strip())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Note) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


async def visited(dashboard: Served, groups: list[Group]) -> list[Seen]:
    """Return what a browser that enforces the policy observed, and one that does not."""
    seen = [Seen(), Seen()]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**launch_options())
        login = await browser.new_context()
        page = await login.new_page()
        await page.goto(dashboard.link)
        await page.locator("main form button").click()
        await page.wait_for_url(lambda address: "/login/" not in address)
        state = await login.storage_state()
        work = []
        for one, with_policy in zip(seen, (True, False), strict=True):
            context = await watched_context(
                browser, dashboard.site, one, with_policy=with_policy, storage_state=state
            )
            waiting = iter(groups)
            pages = [await context.new_page() for _ in range(PAGES_AT_ONCE)]
            work += [visit_groups(page, waiting, one) for page in pages]
            for address in LISTS:
                await visit(pages[0], address, one)
        await asyncio.gather(*work)
        await browser.close()
    return seen


async def visit_groups(page: Page, groups: Iterator[Group], seen: Seen) -> None:
    """Open the pages of groups until the queue is empty."""
    for group in groups:
        for address in filter(None, group.addresses):
            await visit(page, address, seen)
        await visit(page, group.run, seen)
        await visit_tabs(page, TABS, seen)
        await visit_during_a_run(page, group, seen)


async def visit_during_a_run(page: Page, group: Group, seen: Seen) -> None:
    """Open a job page while its events arrive over the socket."""
    job = await sync_to_async(waiting_job)(group)
    await page.goto(job.get_absolute_url())
    await page.wait_for_selector(".job-head[ws-connect]")
    last = await sync_to_async(make_events)(job, group.texts, group.texts.numbers)
    await page.wait_for_selector(f'[data-event="{last}"]', state="attached")
    await read(page, seen)


def waiting_job(group: Group) -> "Job":
    """Return a job that has not ended and that no worker claims."""
    from django.utils import timezone

    from viewer.models import Job

    later = timezone.now() + timedelta(days=1)
    return Job.objects.create(kind="fork", location=group.location, branch="live", start_at=later)


async def acting_unescaped(payloads: Mapping[int, str], asked: set[str]) -> set[int]:
    """Return the payloads that run or request something on pages without escaping."""
    acting: set[str] = set()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**launch_options())
        context = await browser.new_context()

        async def mark(source: object, number: object = "") -> None:
            acting.add(str(number).strip("[']"))

        async def dismiss(dialog: Dialog) -> None:
            acting.add(dialog.message)
            await dialog.dismiss()

        await context.expose_binding("mark", mark)
        context.on("dialog", dismiss)
        documents = [form.format(payload) for payload in payloads.values() for form in UNESCAPED]
        for at in range(0, len(documents), FRAMES_A_PAGE):
            frames = [
                f'<iframe srcdoc="{escape(one)}"></iframe>' for one in documents[at : at + FRAMES_A_PAGE]
            ]
            page = await context.new_page()
            await page.set_content("".join(frames))
            await page.close()
        await browser.close()
    acting |= {line.split()[1].strip("/") for line in asked if line.startswith("GET ")}
    return {number for number in payloads if str(number) in acting}


def report(payloads: Mapping[int, str], seen: list[Seen], acting: set[int]) -> int:
    """Print the results. Return 1 if a check failed, else 0."""
    whole = [name for name, numbers in seen[0].shown.items() if len(numbers) == len(payloads)]
    observed = ("pages", "scripts run", "requests", "reports", "became markup")
    print_heading("the browser", "payloads", "fields", *observed)
    for name, one in zip(("heeds the policy", "does not"), seen, strict=True):
        counts = (len(one.ran), len(one.requests), len(one.reports), len(one.markup))
        print_row(name, len(payloads), len(one.shown), one.pages, *counts)
        for fault in (*one.ran, *one.requests, *one.reports, *one.markup, *one.failed)[:20]:
            print(fault)
    print(f"Of {len(payloads)}, {len(acting)} run or ask for something where nothing is escaped.")
    print(f"In {len(whole)} fields each of them was to be read; in the others:")
    others = {name: len(seen[0].shown[name]) for name in sorted(seen[0].shown.keys() - whole)}
    print(", ".join(f"{name} {count}" for name, count in others.items()))
    return 0 if all(one.holds for one in seen) else 1


if __name__ == "__main__":
    sys.exit(main())
