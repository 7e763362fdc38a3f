"""The page of a job in a real browser: live updates, reloads and restarts of the server."""

import re

import pytest
from django.utils import timezone
from playwright.sync_api import APIResponse, Page, Route, expect

from tests.live.server import Server
from tests.waiting import wait_until
from viewer.messages.message import plain_text
from viewer.models import Job, JobEvent, Run, Sweep

pytestmark = pytest.mark.browser
WORDS = re.compile(r"word\d+")


def add_events(job: Job, first: int, last: int) -> None:
    """Add events as a run with streamed text writes them."""
    JobEvent.objects.bulk_create(
        JobEvent(
            job=job, seq=seq, kind="text", at=timezone.now(), data={"text": f"word{seq} ", "agent": "Writer"}
        )
        for seq in range(first, last + 1)
    )


def shown_texts(page: Page) -> list[str]:
    return WORDS.findall(page.locator(".job-events").inner_text())


def texts(last: int) -> list[str]:
    return [f"word{seq}" for seq in range(1, last + 1)]


def test_events_appear_without_a_reload_and_a_reload_changes_nothing(page: Page, job: Job) -> None:
    add_events(job, 1, 3)
    page.goto(job.get_absolute_url())
    page.wait_for_selector('[data-seq="3"]', state="attached")
    for last in range(4, 8):
        add_events(job, last, last)
        page.wait_for_selector(f'[data-seq="{last}"]', state="attached")
    assert shown_texts(page) == texts(7)
    page.reload()
    assert shown_texts(page) == texts(7)


@pytest.mark.parametrize("name", ["home", "location", "job"])
def test_each_page_of_a_running_job_shows_its_progress(page: Page, job: Job, name: str) -> None:
    addresses = {"home": "/", "location": job.location.get_absolute_url(), "job": job.get_absolute_url()}
    page.goto(addresses[name])
    progress = page.locator(f"#job-{job.pk}-progress")
    expect(progress).to_contain_text("0 of 2")
    add_events(job, 1, 2)
    expect(progress).to_contain_text("word1 word2")
    JobEvent.objects.create(job=job, seq=3, kind="task_completed", at=timezone.now(), data={"task": "a"})
    expect(progress).to_contain_text("1 of 2")
    expect(progress).to_have_attribute("data-seq", "3")


def test_the_answers_of_a_replay_appear_and_a_reload_changes_nothing(page: Page, job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(kind=Job.Kind.REPLAY, plan=[])
    page.goto(job.get_absolute_url())
    answers = page.locator(".replay-answers")
    expect(answers).to_contain_text("No model has answered yet.")
    for seq in (1, 2):
        data = {"model": "gpt-4o", "attempt": seq, "text": f"<b>answer {seq}</b>"}
        JobEvent.objects.create(job=job, seq=seq, kind="call_replayed", at=timezone.now(), data=data)
        expect(answers).to_contain_text(f"<b>answer {seq}</b>")
    job.end(Job.Status.SUCCEEDED)
    expect(page.locator(".status-succeeded, .status-completed").first).to_be_visible()
    arrived = answers.inner_text()
    page.reload()
    assert answers.inner_text() == arrived


def test_a_restart_of_the_server_loses_and_repeats_no_event(page: Page, job: Job, server: Server) -> None:
    page.goto(job.get_absolute_url())
    add_events(job, 1, 5)
    page.wait_for_selector('[data-seq="5"]', state="attached")
    server.end()
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    add_events(job, 6, 60)
    server.start()
    wait_until(server.answers)
    page.wait_for_selector('[data-seq="60"]', state="attached", timeout=60_000)
    assert shown_texts(page) == texts(60)
    expect(page.get_by_text("Reconnecting…")).to_be_hidden()


def test_the_keys_of_every_page_are_listed(page: Page, job: Job) -> None:
    for address in ("/", "/jobs/", "/inbox/", job.get_absolute_url()):
        page.goto(address)
        page.keyboard.press("?")
        expect(page.locator("#page-keys")).to_be_visible()
        page.keyboard.press("Escape")


def test_the_end_is_shown_and_the_cancel_button_disappears(page: Page, job: Job) -> None:
    page.goto(job.get_absolute_url())
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    job.end(Job.Status.FAILED, error=plain_text("the tool broke"), log_end="its last line")
    expect(page.locator(".job-outcome")).to_contain_text("the tool broke")
    expect(page.locator(".status-failed")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_cancelling_asks_for_confirmation(page: Page, job: Job) -> None:
    page.goto(job.get_absolute_url())
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Cancelling…")).to_be_disabled()
    job.refresh_from_db()
    assert job.is_being_cancelled


def test_a_new_run_shows_its_bar_on_an_open_page_until_it_is_closed(page: Page, job: Job) -> None:
    page.goto(job.location.get_absolute_url())
    bars = page.locator(".job-bar")
    expect(bars).to_have_count(1)
    began = Job.objects.create(kind="fork", location=job.location, branch="late", status="running")
    expect(bars).to_have_count(2)
    bar = page.locator(f"#job-{began.pk}")
    JobEvent.objects.create(
        job=began,
        seq=1,
        kind="task_started",
        at=timezone.now(),
        data={"task": "t", "description": "Say hello"},
    )
    expect(bar).to_contain_text("Forking to late: Say hello")
    began.end(Job.Status.SUCCEEDED)
    expect(bar).to_contain_text("Forked to late")
    bar.get_by_role("button", name="Close").click()
    expect(bars).to_have_count(1)


def test_a_new_checkpoint_appears_on_an_open_page(page: Page, job: Job) -> None:
    page.goto(job.location.get_absolute_url())
    page.wait_for_selector("#location-revision", state="attached")
    page.evaluate(
        "window.changes = 0;document.body.addEventListener('location-changed', () => { window.changes += 1 })"
    )
    job.location.revision = 3
    job.location.save(update_fields=["revision"])
    page.wait_for_function("() => window.changes === 1")
    job.end(Job.Status.SUCCEEDED)
    page.wait_for_function("() => window.changes === 2")


def test_a_change_during_a_request_is_fetched_afterwards(page: Page, job: Job) -> None:
    page.goto(job.location.get_absolute_url())
    page.wait_for_selector("#location-contents")
    held: list[tuple[Route, APIResponse]] = []

    def hold_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route(lambda url: url.endswith(job.location.get_absolute_url()), hold_first)
    job.location.mark_changed()
    while not held:
        page.wait_for_timeout(20)
    shown = page.locator("#location-revision").get_attribute("data-revision") or ""
    Run.objects.create(location=job.location, key="kickoff", entity="crew", name="a run that came late")
    job.location.mark_changed()
    # The server may have found another change meanwhile.
    expect(page.locator("#location-revision")).not_to_have_attribute("data-revision", shown)
    route, response = held[0]
    route.fulfill(response=response)
    expect(page.get_by_text("a run that came late")).to_be_visible()


def test_the_page_of_a_sweep_streams_the_text_of_each_branch(page: Page, job: Job) -> None:
    sweep = Sweep.objects.create(name="year")
    values = {"kind": Job.Kind.FORK, "location": job.location, "status": Job.Status.RUNNING, "sweep": sweep}
    jobs = [
        Job.objects.create(branch=f"year/{year}", plan=job.plan, started_at=timezone.now(), **values)
        for year in (2027, 2028)
    ]
    page.goto(sweep.get_absolute_url())
    for number, one in enumerate(jobs, 1):
        add_events(one, number, number)
        expect(page.locator(f"#job-{one.pk}-progress")).to_contain_text(f"word{number}")
    # A refresh of the page keeps what is streamed.
    with page.expect_response(lambda response: response.url == page.url):
        pass
    for number, one in enumerate(jobs, 1):
        add_events(one, number + 2, number + 2)
        expect(page.locator(f"#job-{one.pk}-progress")).to_contain_text(f"word{number + 2}")
