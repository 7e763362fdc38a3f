"""Measures how a new teammate gets from an invitation to their first comment, in a real browser.

Pages are timed. What a person does in between is counted, and priced as in the keystroke-level model of Card,
Moran and Newell: the browser itself types and clicks without a delay.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from playwright.sync_api import Page, expect, sync_playwright

from quality.served import served
from quality.tables import print_heading, print_row
from scripts.chromium import launch_options

GOAL_SECONDS = 60
# Seconds for a key of an average typist, for pointing and clicking, for moving a hand, and for thinking.
KEY, CLICK, HAND, THOUGHT = 0.28, 1.2, 0.4, 1.35
NAME, PASSWORD = "grace", "green tea, twice"
COMMENT = "The second task repeats the first one. Shall we fork it?"
CHECKPOINTS = 1_000


@dataclass
class Steps:
    """What a person does on the pages, and the seconds that the pages took."""

    page: Page
    rows: list[tuple[str, float]] = field(default_factory=list)
    clicks: int = 0
    keys: int = 0
    fields: int = 0

    def types(self, label: str, text: str) -> None:
        """Type into the field with this label, which a hand has to reach."""
        self.page.get_by_label(label, exact=True).fill(text)
        self.fields, self.keys = self.fields + 1, self.keys + len(text)

    def opens(self, title: str, act: Callable[[], object], shows: str) -> None:
        """Click, and wait until the next page shows a heading."""
        began = time.monotonic()
        act()
        expect(self.page.get_by_role("heading", name=shows).first).to_be_visible(timeout=60_000)
        self.rows.append((title, time.monotonic() - began))
        self.clicks += 1

    @property
    def by_hand(self) -> float:
        """The seconds that a person needs for this, without reading."""
        return self.clicks * (THOUGHT + CLICK) + self.fields * (THOUGHT + CLICK + 2 * HAND) + self.keys * KEY


def main() -> None:
    with served() as dashboard:
        link, run = invited()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(**launch_options())
            steps = join(Steps(browser.new_page()), dashboard.site + link, run)
            browser.close()
    report(steps)


def invited() -> tuple[str, str]:
    """Return the path of an invitation, and the name of a run that the new person will see."""
    from django.contrib.auth.models import User
    from django.urls import reverse

    from tests.lineage.generated_runs import generated_run
    from viewer.models import Level
    from viewer.records.accounts import invite

    run = generated_run(CHECKPOINTS)
    # Comments are for several people.
    User.objects.create_user("ada")
    _invitation, token = invite(None, level=Level.OPERATOR)
    return reverse("invitation", args=[token]), str(run)


def join(steps: Steps, link: str, run: str) -> Steps:
    """Accept the invitation, open the run that home shows, and comment on it."""
    page = steps.page
    steps.opens("the invitation", lambda: page.goto(link), "Invitation")
    steps.types("Username", NAME)
    steps.types("Password", PASSWORD)
    steps.types("Password confirmation", PASSWORD)
    create = page.get_by_role("button", name="Create account")
    steps.opens("the account, then home", create.click, "Locations")
    steps.opens("the run", page.get_by_role("link", name=run).first.click, run)
    steps.opens("its comments", page.get_by_role("link", name="Comments").first.click, "Comments")
    steps.types("Comment on the run", COMMENT)
    began = time.monotonic()
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.locator("#discussions p", has_text=COMMENT).first).to_be_visible(timeout=60_000)
    steps.rows.append(("the comment", time.monotonic() - began))
    steps.clicks += 1
    return steps


def report(steps: Steps) -> None:
    print_heading("page", "seconds")
    for title, seconds in steps.rows:
        print_row(title, f"{seconds:.2f}")
    pages = sum(seconds for _title, seconds in steps.rows)
    print_row("all pages", f"{pages:.1f}")
    done = f"{steps.clicks} clicks, {steps.fields} fields, {steps.keys} keys"
    print_row(f"a person: {done}", f"{steps.by_hand:.1f}")
    print_row("together", f"{pages + steps.by_hand:.1f}")
    print_row("goal", f"under {GOAL_SECONDS}")


if __name__ == "__main__":
    main()
