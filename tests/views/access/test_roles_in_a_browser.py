"""The page of teams and roles in a browser: what people have comes first, and forms are folded."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.views.axe import findings
from tests.views.browsing import opening, resize
from viewer.models import Invitation, Level, Location, Role, Team
from viewer.records.accounts import teammate

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def page(
    browser: Browser, live_server: LiveServer, transactional_db: None, location: Location
) -> Iterator[Page]:
    """The page with people, two teams and open invitations, as an admin of everything sees it."""
    for name in ("writers", "reviewers of the northern office"):
        team = Team.objects.create(name=name, quotas={"tokens": 500})
        team.members.set([teammate(f"{name[:3]}-{number}") for number in range(2)])
        Role.objects.create(team=team, location=location, level=Level.OPERATOR)
    with opening(browser, live_server.url) as open_page:
        yield open_page(reverse("roles"))


def test_forms_are_folded_below_what_they_add_to(page: Page) -> None:
    resize(page, 1440)
    # Who may do what is on the first screen, whole.
    expect(page.locator("table").first).to_be_in_viewport(ratio=1)
    expect(page.locator("#teams-title")).to_be_in_viewport()
    for summary, field in (
        ("Give a role", "#role-name"),
        ("Invite somebody", "#invited-level"),
        ("Add to the team", "#member-name"),
    ):
        expect(page.locator(field)).not_to_be_visible()
        page.locator("summary", has_text=summary).click()
        expect(page.locator(field)).to_be_visible()
    page.fill("#member-team", "writers")
    page.fill("#member-name", "newcomer")
    with page.expect_navigation():
        page.get_by_role("button", name="Add to the team").click()
    expect(page.get_by_role("button", name="Remove newcomer")).to_be_visible()
    assert Team.objects.get(name="writers").members.filter(username="newcomer").exists()
    page.locator("summary", has_text="Invite somebody").click()
    with page.expect_navigation():
        page.get_by_role("button", name="Make link").click()
    assert Invitation.objects.count() == 1 and User.objects.filter(username="newcomer").exists()


def test_the_page_has_no_faults_at_any_width(page: Page) -> None:
    for is_open in ("false", "true"):
        page.evaluate(f"document.querySelectorAll('details').forEach(part => (part.open = {is_open}))")
        for width in (390, 1440):
            resize(page, width)
            assert findings(page) == ""
            assert page.evaluate("document.documentElement.scrollWidth") <= width
