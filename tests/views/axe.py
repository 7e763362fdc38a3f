"""Accessibility faults that axe finds on a page."""

from importlib.resources import files
from typing import Any, Literal

from playwright.sync_api import Page

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Only these rules depend on the theme.
COLOURS = ["color-contrast", "link-in-text-block"]
RUN = """async ([type, values]) => {
  const found = await axe.run(document, {runOnly: {type, values}, resultTypes: ['violations']});
  return found.violations.flatMap(rule => rule.nodes.map(node =>
    `${rule.id}: ${node.html.slice(0, 200)} ${node.failureSummary.replaceAll('\\n', ' ')}`));
}"""


THEMES: tuple[tuple[Literal["light", "dark"], list[Any]], ...] = (
    ("light", ["tag", TAGS]),
    ("dark", ["rule", COLOURS]),
)


def findings(page: Page) -> str:
    """Return a line for each violation on the current page in both themes, with its element."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE)
    # A page being replaced is not the page under test.
    page.wait_for_function("() => !document.querySelector('.htmx-request, #preflight-wait')")
    found = []
    for theme, rules in THEMES:
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        found += [f"{theme} {finding}" for finding in page.evaluate(RUN, rules)]
    return "\n".join(found)


def faults_of(page: Page, addresses: dict[str, str]) -> str:
    """Return the faults that axe finds at these addresses, a line each."""
    found = []
    for name, address in addresses.items():
        page.goto(address)
        if wrong := findings(page):
            found.append(f"{name}:\n{wrong}")
    return "\n".join(found)
