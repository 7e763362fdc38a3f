"""Accessibility faults that axe finds on a page."""

from importlib.resources import files

from playwright.sync_api import Page

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = """async (tags) => {
  const found = await axe.run(document, {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']});
  return found.violations.flatMap(rule => rule.nodes.map(node =>
    `${rule.id}: ${node.html.slice(0, 200)} ${node.failureSummary.replaceAll('\\n', ' ')}`));
}"""


def findings(page: Page) -> str:
    """Return a line for each violation on the current page in both themes, with its element."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE)
    # A page being replaced is not the page under test.
    page.wait_for_function("() => !document.querySelector('.htmx-request, #preflight-wait')")
    found = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        found += [f"{theme} {finding}" for finding in page.evaluate(RUN, TAGS)]
    return "\n".join(found)
