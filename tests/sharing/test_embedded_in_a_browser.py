"""The embedded view in frames of real pages, on an allowed origin and on another one."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Frame, Page, expect

from tests.live.server import Server
from tests.sharing.conftest import share
from tests.views.axe import findings
from tests.waiting import wait_until
from viewer.models import Run, ShareLink

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WIDTHS = (320, 390, 820, 1200)


class Embedder(BaseHTTPRequestHandler):
    """A page with frames, as somebody else's server sends it."""

    def __init__(self, addresses: list[str], *args: object) -> None:
        self.addresses = addresses
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        frames = "".join(
            f'<iframe src="{one}" title="{number}" width="100%" height="480"></iframe>'
            for number, one in enumerate(self.addresses)
        )
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f"<!doctype html><title>Wiki</title><body style='margin:0'>{frames}".encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def embedders() -> Iterator[tuple[list[str], list[str]]]:
    """Return the origins of two servers, and the addresses that their pages have in frames."""
    addresses: list[str] = []
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), partial(Embedder, addresses)) for _one in range(2)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield [f"http://127.0.0.1:{server.server_port}" for server in servers], addresses
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def server(embedders: tuple[list[str], list[str]], transactional_db: None) -> Iterator[Server]:
    server = Server(EMBED_ORIGINS=embedders[0][0])
    server.start()
    wait_until(server.answers)
    yield server
    server.end()


def frame_of(page: Page, number: int = 0) -> Frame:
    return page.frames[number + 1]


def test_only_an_allowed_page_shows_the_lineage(
    browser: Browser, server: Server, embedders: tuple[list[str], list[str]], crew_run: Run
) -> None:
    (allowed, other), addresses = embedders
    link = f"http://127.0.0.1:{server.port}{share('run', str(crew_run.uid))}"
    addresses += [f"{link}embed/", link]
    page = browser.new_page()
    for origin, is_shown in ((allowed, True), (other, False)):
        page.goto(origin)
        page.wait_for_load_state("networkidle")
        rows = page.frame_locator("iframe").first.locator(".row")
        assert (rows.count() > 0) == is_shown, origin
        # The page of the link itself is in no frame.
        assert page.frame_locator("iframe").last.locator(".row").count() == 0, origin
    page.close()


def test_it_fits_narrow_and_wide_frames_and_follows_the_theme_of_the_system(
    browser: Browser, server: Server, embedders: tuple[list[str], list[str]], crew_run: Run
) -> None:
    (allowed, _other), addresses = embedders
    addresses.append(f"http://127.0.0.1:{server.port}{share('run', str(crew_run.uid))}embed/")
    page = browser.new_page()
    page.goto(allowed)
    inside = page.frame_locator("iframe")
    expect(inside.locator(".row").first).to_be_visible()
    colours = set()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        colours.add(frame_of(page).evaluate("getComputedStyle(document.documentElement).backgroundColor"))
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 700})
            wait_until(lambda width=width: frame_of(page).evaluate("innerWidth") <= width)  # type: ignore[misc]
            assert frame_of(page).evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width
    assert len(colours) == 2
    page.goto(addresses[0])
    assert findings(page) == ""
    page.close()


def test_a_row_opens_the_shared_page_in_a_new_tab_that_cannot_reach_the_frame(
    browser: Browser, server: Server, embedders: tuple[list[str], list[str]], crew_run: Run
) -> None:
    (allowed, _other), addresses = embedders
    addresses.append(f"http://127.0.0.1:{server.port}{share('run', str(crew_run.uid))}embed/")
    context = browser.new_context()
    page = context.new_page()
    page.goto(allowed)
    with context.expect_page() as opened:
        page.frame_locator("iframe").locator(".row a").nth(1).click()
    tab = opened.value
    expect(tab.locator("#lineage")).to_be_visible()
    assert tab.evaluate("opener === null && document.referrer === ''")
    assert [one["name"] for one in context.cookies() if "viewed" not in one.get("name", "")] == []
    context.close()


def test_it_follows_the_run_and_ends_with_its_link(
    browser: Browser, server: Server, embedders: tuple[list[str], list[str]], crew_run: Run
) -> None:
    (allowed, _other), addresses = embedders
    addresses.append(f"http://127.0.0.1:{server.port}{share('run', str(crew_run.uid))}embed/")
    page = browser.new_page()
    page.goto(allowed)
    inside = page.frame_locator("iframe")
    expect(inside.locator(".live.is-lost")).to_have_count(0)
    expect(inside.get_by_role("heading")).to_contain_text(str(crew_run))
    wait_until(lambda: frame_of(page).evaluate("document.querySelector('#location-revision') !== null"))
    Run.objects.filter(pk=crew_run.pk).update(name="renamed meanwhile")
    expect(inside.get_by_role("heading")).to_contain_text("renamed meanwhile")
    ShareLink.objects.get().revoke()
    expect(inside.get_by_text("This link does not work")).to_be_visible()
    expect(inside.locator(".row")).to_have_count(0)
    page.close()
