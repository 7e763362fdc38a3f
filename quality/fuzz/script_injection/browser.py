"""Records what pages do in a real browser: scripts that run, requests, and text that becomes markup."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, BrowserContext, Dialog, Page, Request, Response

# Returns elements that only payloads create, and the «field number» labels.
READ = r"""
async () => {
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))));
  const NONE_OF_OURS = "iframe,object,embed,base,video,audio,source,image,animate,set,foreignObject,math," +
    "xmp,plaintext,img,meta[http-equiv],style,body body," +
    "link:not([href^='/static/']),script:not([src^='/static/'])";
  const ADDRESSES = ["href", "src", "action", "xlink:href"];
  const strange = [...document.querySelectorAll(NONE_OF_OURS)];
  const markup = strange.map((element) => element.outerHTML.slice(0, 200));
  const texts = [document.documentElement.textContent];
  for (const element of document.querySelectorAll("*")) {
    for (const { name, value } of element.attributes) {
      texts.push(value);
      const scheme = ADDRESSES.includes(name) ? URL.parse(value, location)?.protocol : "https:";
      const leads = !/^(https?|mailto):$/.test(scheme);
      const isHere = /^(\/(?!\/)|\?)/.test(value);
      const asksElsewhere = /^(data-)?hx-(get|post|on)|^ws-connect/.test(name) && !isHere;
      if (name.startsWith("on") || name === "srcdoc" || name === "style" || leads || asksElsewhere)
        markup.push(`${element.localName} ${name}=${value}`.slice(0, 200));
    }
  }
  const labels = texts.join("\n").matchAll(/«([a-z ]+) (\d+)»/g);
  return { markup, labels: [...new Set([...labels].map((label) => label[0]))] };
}
"""
LABEL = re.compile(r"«([a-z ]+) (\d+)»")


@dataclass
class Seen:
    """What one browser observed."""

    pages: int = 0
    ran: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    markup: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    # The numbers of the visible payloads, by field.
    shown: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    @property
    def holds(self) -> bool:
        return self.pages > 0 and not (
            self.ran or self.requests or self.reports or self.markup or self.failed
        )


async def watched_context(
    browser: Browser, site: str, seen: Seen, *, with_policy: bool, **how: Any
) -> BrowserContext:
    """Return a browser context that records in ``seen`` what pages do, with or without enforcing the CSP."""
    context = await browser.new_context(bypass_csp=not with_policy, base_url=site, **how)

    async def mark(source: object, number: object = "") -> None:
        seen.ran.append(f"mark {number}")

    async def dismiss(dialog: Dialog) -> None:
        seen.ran.append(f"{dialog.type} {dialog.message}")
        await dialog.dismiss()

    def asked(request: Request) -> None:
        if not request.url.startswith((f"{site}/", "blob:", "about:")):
            seen.requests.append(request.url)

    def answered(response: Response) -> None:
        if response.status >= 500:
            seen.failed.append(f"{response.status} {response.url}")

    await context.expose_binding("mark", mark)
    context.on("dialog", dismiss)
    context.on("request", asked)
    context.on("response", answered)
    context.on(
        "console",
        lambda message: (
            seen.reports.append(message.text) if "Content Security Policy" in message.text else None
        ),
    )
    return context


async def visit(page: Page, address: str, seen: Seen) -> None:
    """Open the page and record what it shows."""
    answer = await page.goto(address)
    if answer is None or answer.status != 200:
        seen.failed.append(f"{answer and answer.status} {address}")
    await read(page, seen)


async def visit_tabs(page: Page, tabs: Sequence[str], seen: Seen) -> None:
    """Click through the tabs of the checkpoint in the open page. Tabs without contents are not on it."""
    for tab in tabs:
        link = page.locator(f"#tab-{tab}")
        if not await link.count():
            continue
        await link.dispatch_event("click")
        await page.wait_for_selector(f"#tab-{tab}[aria-current]", state="attached")
        await read(page, seen)


async def read(page: Page, seen: Seen) -> None:
    found = await page.evaluate(READ)
    seen.pages += 1
    seen.markup += found["markup"]
    for label in found["labels"]:
        match = LABEL.fullmatch(label)
        assert match
        seen.shown[match[1]].add(int(match[2]))
