"""Pages in a real browser for a logged-in user."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, Page

from viewer.records.accounts import teammate
from viewer.records.permissions import May

Open = Callable[..., Page]
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@contextmanager
def opening(browser: Browser, site: str, right: May | None = "run") -> Iterator[Open]:
    """Return a function that opens an address of the site. Its keywords are browser context options."""
    client = Client()
    client.force_login(teammate("runner", right))
    name = settings.SESSION_COOKIE_NAME
    cookie = {"name": name, "value": client.cookies[name].value, "url": site}
    opened = []

    def open_in_browser(address: str, **how: object) -> Page:
        context = browser.new_context(base_url=site, **how)  # type: ignore[arg-type]
        context.add_cookies([cookie])  # type: ignore[list-item]
        opened.append(context)
        page = context.new_page()
        page.goto(address)
        return page

    yield open_in_browser
    for context in opened:
        context.close()


def resize(page: Page, width: int, height: int = 900) -> None:
    """Show the top of the page in a window of this size, after what scripts change for it."""
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("scrollTo(0, 0)")
    page.evaluate(FRAMES)
