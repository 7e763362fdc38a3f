"""The fork form in a real browser: the plan follows typing, and nothing starts before its plan is shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect
from pytest_django.live_server_helper import LiveServer

from tests.views.forking import CREW, checked, create_location, stored
from viewer.host.jobs.files import JobStorage
from viewer.models import AcceptedEffect, Checkpoint, Job, PreflightCheck
from viewer.records.accounts import teammate

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def fork_page(browser: Browser, live_server: LiveServer, client: Client, tmp_path: Path) -> Iterator[Page]:
    """Open the fork page of a crew's checkpoint. Fails on errors in scripts or violations of the policy."""
    checkpoint = stored(create_location((tmp_path / "newsroom").resolve()), CREW)
    checked(checkpoint)
    client.force_login(teammate("ada", "run"))
    context = browser.new_context()
    context.add_cookies(
        [
            {"name": name, "value": morsel.value, "url": live_server.url}
            for name, morsel in client.cookies.items()
        ]
    )
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if "Policy" in message.text else None)
    page.goto(live_server.url + reverse("fork", args=[checkpoint.pk]))
    yield page
    context.close()
    assert errors == []


def test_the_plan_follows_typing(fork_page: Page) -> None:
    fork_page.fill("#input-1", "2030")
    expect(fork_page.locator(".value.is-changed")).to_have_count(1)
    fork_page.locator(".output-fold summary").first.click()
    fork_page.fill("#output-1", "The whole research")
    expect(fork_page.locator("#output-1-after ins")).to_have_text("whole ")
    expect(fork_page.locator(".step").nth(1)).to_contain_text("runs again")
    expect(fork_page.locator(".show-plan")).to_be_hidden()
    fork_page.check("#keep-2")
    expect(fork_page.locator(".step").nth(1)).to_contain_text("its output is reused")
    expect(fork_page.locator("#keep-2")).to_be_focused()
    assert not Job.objects.exists()


def test_a_start_is_held_back_until_its_plan_is_shown(fork_page: Page) -> None:
    fork_page.fill("#branch", "mine")
    fork_page.keyboard.press("Control+Enter")
    expect(fork_page.locator("#fork")).to_be_visible()
    assert not Job.objects.exists()
    expect(fork_page.locator(".where-facts")).to_contain_text("branch mine")
    fork_page.keyboard.press("Control+Enter")
    fork_page.wait_for_url("**/runs/**")
    assert Job.objects.get().branch == "mine"


def test_the_enter_key_in_a_field_starts_nothing(fork_page: Page) -> None:
    fork_page.locator("#input-1").press("Enter")
    fork_page.locator("#branch").press("Enter")
    fork_page.fill("#input-1", "soon")
    expect(fork_page.locator("#input-1-error")).to_contain_text("whole number")
    expect(fork_page.locator("#start-button")).to_be_disabled()
    assert not Job.objects.exists()


@pytest.mark.parametrize("keys", ["?", "/"])
def test_ctrl_enter_in_a_dialog_starts_nothing(fork_page: Page, keys: str) -> None:
    fork_page.keyboard.press(keys)
    expect(fork_page.locator("dialog[open]")).to_be_visible()
    # What the palette offers is not opened, so that the page stays.
    fork_page.evaluate("""() => {
        document.getElementById("fork").requestSubmit = () => (document.body.dataset.started = "");
        HTMLElement.prototype.click = () => (document.body.dataset.opened = "");
    }""")
    fork_page.keyboard.press("Control+Enter")
    expect(fork_page.locator("body[data-opened]")).to_have_count(int(keys == "/"))
    expect(fork_page.locator("body[data-started]")).to_have_count(0)


def test_a_double_click_starts_one_run(fork_page: Page) -> None:
    fork_page.dblclick("#start-button")
    fork_page.wait_for_url("**/runs/**")
    assert Job.objects.count() == 1


def test_losses_have_to_be_accepted_before_the_start(fork_page: Page) -> None:
    checkpoint = Checkpoint.objects.get()
    part = {"what": "guardrails", "name": "no_shouting", "task": 3, "agent": "", "fate": "lost"}
    check = checked(checkpoint, components=[part])
    # While the preflight check runs, the page polls and shows its result.
    PreflightCheck.objects.update(status=PreflightCheck.Status.CHECKING)
    with JobStorage(made_folder(check)).following():
        fork_page.reload()
        expect(fork_page.locator("#preflight")).to_contain_text("Nothing runs.")
        expect(fork_page.locator("#start-button")).to_be_disabled()
        check.finish(check.report)
        expect(fork_page.locator("#preflight")).to_contain_text("task 3: guardrail no_shouting")
    fork_page.fill("#branch", "mine")
    expect(fork_page.locator(".where-facts")).to_contain_text("branch mine")
    expect(fork_page.locator("#start-button")).to_be_disabled()
    fork_page.keyboard.press("Control+Enter")
    fork_page.check("#accepted")
    expect(fork_page.locator("#start-button")).to_be_enabled()
    assert not Job.objects.exists()
    fork_page.click("#start-button")
    fork_page.wait_for_url("**/runs/**")
    assert Job.objects.get().request["options"]["accepted"] == ["guardrails/task 3/no_shouting"]


def test_ctrl_enter_during_the_preflight_check_starts_once_it_has_passed(fork_page: Page) -> None:
    check = checked(Checkpoint.objects.get())
    PreflightCheck.objects.update(status=PreflightCheck.Status.CHECKING)
    with JobStorage(made_folder(check)).following():
        fork_page.reload()
        expect(fork_page.locator("#preflight")).to_contain_text("Nothing runs.")
        fork_page.keyboard.press("Control+Enter")
        expect(fork_page.locator("#start-state")).to_contain_text(
            "Starts when the preflight check has passed."
        )
        assert not Job.objects.exists()
        check.finish(check.report)
        fork_page.wait_for_url("**/runs/**")
    assert Job.objects.count() == 1


def test_an_edit_or_a_loss_ends_the_wait_of_ctrl_enter(fork_page: Page) -> None:
    part = {"what": "guardrails", "name": "no_shouting", "task": 3, "agent": "", "fate": "lost"}
    for edits, components in ((True, []), (False, [part])):
        check = checked(Checkpoint.objects.get(), components=components)
        PreflightCheck.objects.update(status=PreflightCheck.Status.CHECKING)
        with JobStorage(made_folder(check)).following():
            fork_page.reload()
            expect(fork_page.locator("#preflight")).to_contain_text("Nothing runs.")
            fork_page.keyboard.press("Control+Enter")
            if edits:
                fork_page.fill("#input-1", "2031")
            check.finish(check.report)
            expect(fork_page.locator("#preflight-wait")).to_have_count(0)
            expect(fork_page.locator("#start-state")).to_contain_text("Nothing has run yet.")
        assert not Job.objects.exists()


def test_edits_survive_a_reload_and_going_back(fork_page: Page) -> None:
    type_edits(fork_page)
    for leave in (fork_page.reload, lambda: elsewhere(fork_page)):
        leave()
        expect(fork_page.get_by_text("Draft restored")).to_be_visible()
        expect(fork_page.locator("#input-1")).to_have_value("2030")
        expect(fork_page.locator("#output-1")).to_have_value("The whole research")
        expect(fork_page.locator("#branch")).to_have_value("mine")
        # The plan is that of the draft and its choices.
        expect(fork_page.locator(".where-facts")).to_contain_text("branch mine")
        expect(fork_page.locator("#keep-2")).to_be_checked()
        expect(fork_page.locator(".step").nth(1)).to_contain_text("its output is reused")
    assert not Job.objects.exists()


def type_edits(page: Page) -> None:
    page.fill("#input-1", "2030")
    page.locator(".output-fold summary").first.click()
    page.fill("#output-1", "The whole research")
    page.fill("#branch", "mine")
    page.check("#keep-2")
    expect(page.locator(".where-facts")).to_contain_text("branch mine")
    expect(page.locator(".step").nth(1)).to_contain_text("its output is reused")


def elsewhere(page: Page) -> None:
    page.get_by_role("link", name="Jobs").click()
    page.wait_for_url("**/jobs/")
    page.go_back()


def drafts(page: Page) -> str:
    return str(page.evaluate("JSON.stringify(sessionStorage)"))


def test_a_draft_is_deleted_when_discarded_or_started(fork_page: Page) -> None:
    fork_page.fill("#input-1", "2030")
    fork_page.reload()
    fork_page.get_by_role("button", name="Discard").click()
    expect(fork_page.locator("#input-1")).to_have_value("2026")
    expect(fork_page.get_by_text("Draft restored")).to_be_hidden()
    assert "2030" not in drafts(fork_page)
    type_edits(fork_page)
    fork_page.click("#start-button")
    fork_page.wait_for_url("**/runs/**")
    expect(fork_page.locator(".run-head")).to_be_visible()
    assert "draft:" not in drafts(fork_page)


def test_possible_secrets_are_never_in_a_draft(fork_page: Page) -> None:
    fork_page.fill("#input-2", "words that nobody may read")
    fork_page.fill("#input-0", "sk-abcdefghijklmnopqrstuvwx")
    fork_page.fill("#input-1", "2030")
    assert "2030" in drafts(fork_page)
    assert "nobody may read" not in drafts(fork_page) and "sk-abc" not in drafts(fork_page)
    fork_page.reload()
    expect(fork_page.get_by_text("Secrets are not saved in drafts")).to_be_visible()
    expect(fork_page.locator("#input-2")).to_have_value("")


def test_drafts_of_two_tabs_are_separate_and_deleted_at_logout(fork_page: Page) -> None:
    other = fork_page.context.new_page()
    other.goto(fork_page.url)
    fork_page.fill("#branch", "mine")
    other.fill("#branch", "theirs")
    for page, name in ((fork_page, "mine"), (other, "theirs")):
        page.reload()
        expect(page.locator("#branch")).to_have_value(name)
    other.get_by_role("button", name="Log out").click()
    other.wait_for_url("**/login/**")
    assert "draft:" not in drafts(other) and "draft:" not in drafts(fork_page)


def test_a_refused_form_keeps_its_draft(fork_page: Page) -> None:
    fork_page.fill("#input-1", "2030")
    fork_page.fill("#branch", "main")
    expect(fork_page.locator("#branch-error")).to_contain_text("already")
    with fork_page.expect_navigation():
        fork_page.evaluate("document.getElementById('fork').submit()")
    expect(fork_page.locator("#errors")).to_be_visible()
    fork_page.fill("#branch", "mine")
    fork_page.goto(fork_page.url)
    expect(fork_page.locator("#input-1")).to_have_value("2030")
    expect(fork_page.locator("#branch")).to_have_value("mine")


def made_folder(check: PreflightCheck) -> Path:
    check.folder.mkdir(parents=True, exist_ok=True)
    return check.folder


def test_effects_are_accepted_with_one_click_and_the_check_continues(fork_page: Page) -> None:
    names = [
        ("module", "tools.search"),
        ("file", "/srv/archive/notes-of-the-desk.txt"),
        ("key", "SERPER_API_KEY"),
    ]
    effects = [
        {"kind": kind, "name": name, "detail": "tools.search.Search: source", "digest": "", "key": name}
        for kind, name in names
    ]
    checked(Checkpoint.objects.get(), effects=effects, is_complete=False)
    fork_page.reload()
    expect(fork_page.locator("#start-button")).to_be_disabled()
    expect(fork_page.locator("#accept-effects dt")).to_have_text(["Import", "File", "Key"])
    fork_page.get_by_role("button", name="Accept for this project").click()
    # The runner fails here because the project's Python is a shell.
    expect(fork_page.locator("#accept-effects")).to_have_count(0)
    expect(fork_page.get_by_role("button", name="Check again")).to_be_visible(timeout=30_000)
    assert AcceptedEffect.objects.count() == 3 and not Job.objects.exists()


def test_the_check_starts_automatically_only_on_forms_opened_from_our_pages(
    fork_page: Page, live_server: LiveServer
) -> None:
    PreflightCheck.objects.all().delete()
    fork_page.reload()
    expect(fork_page.get_by_role("button", name="Run preflight check")).to_be_visible()
    expect(fork_page.locator("#start-button")).to_be_disabled()
    assert not PreflightCheck.objects.exists()
    fork_page.get_by_role("button", name="Run preflight check").click()
    expect(fork_page.get_by_role("button", name="Check again")).to_be_visible(timeout=30_000)
    PreflightCheck.objects.all().delete()
    fork_page.goto(live_server.url + Checkpoint.objects.get().get_absolute_url())
    fork_page.evaluate(f"location.href = '{reverse('fork', args=[Checkpoint.objects.get().pk])}'")
    expect(fork_page.get_by_role("button", name="Check again")).to_be_visible(timeout=30_000)
    assert PreflightCheck.objects.count() == 1
