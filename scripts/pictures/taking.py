"""Takes a picture of a page in every size and both themes, into ``docs/pictures``."""

from collections.abc import Callable
from io import BytesIO

from PIL import Image
from playwright.sync_api import Browser, Locator, Page, ViewportSize

from scripts.served_demo import ROOT, log_in_browser

PICTURES = ROOT / "docs/pictures"
SIZES: dict[str, ViewportSize] = {"": {"width": 1440, "height": 900}, "phone-": {"width": 390, "height": 844}}


def log_in_everywhere(chromium: Browser, link: str) -> dict[str, Page]:
    """Return a logged-in page for each size and theme. The keys are the file names."""
    first = chromium.new_context()
    log_in_browser(first.new_page(), link)
    cookies = first.storage_state()
    pages = {}
    for size, viewport in SIZES.items():
        for theme in ("light", "dark"):
            context = chromium.new_context(
                storage_state=cookies, viewport=viewport, color_scheme="dark" if theme == "dark" else "light"
            )
            pages[f"{size}{theme}"] = context.new_page()
    return pages


def take(pages: dict[str, Page], name: str, prepare: Callable[[Page], None]) -> None:
    """Take a picture of each page once it shows the expected content. Reduce its colors."""
    (PICTURES / name).mkdir(parents=True, exist_ok=True)
    for ending, page in pages.items():
        prepare(page)
        picture = Image.open(BytesIO(page.screenshot()))
        few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(PICTURES / name / f"{ending}.png", optimize=True)


def edit(page: Page, field: Locator, text: str) -> None:
    """Fill in a field and wait for the plan."""
    with page.expect_response("**/plan/"):
        field.fill(text)
    page.wait_for_function("() => !document.querySelector('.htmx-request')")


def start_fork(page: Page) -> str:
    """Press the button. Return the URL that it leads to."""
    page.get_by_role("button", name="Start fork").click(timeout=120_000)
    page.wait_for_url("**job=**")
    return page.url
