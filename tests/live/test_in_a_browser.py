"""A job's page in a real browser: live, through a reload and through a server that goes away."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from playwright.sync_api import APIResponse, Browser, Page, Route, expect

from scripts.served_demo import free_port
from tests.jobs.conftest import ROOT, wait_until
from viewer.access.login_links import teammate
from viewer.messages.message import plain_text
from viewer.models import Job, JobEvent, Location, Question, Run

pytestmark = pytest.mark.browser
WORDS = re.compile(r"word\d+")


class Server:
    """The web server alone, on a port of its own; it can be ended and started again."""

    def __init__(self) -> None:
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "checkpoint_site.settings",
            "PORT": str(self.port),
        }
        command = [sys.executable, "-m", "checkpoint_site.server"]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment)

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def end(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server(transactional_db: None) -> Iterator[Server]:
    server = Server()
    server.start()
    yield server
    server.end()


@pytest.fixture
def page(server: Server, browser: Browser) -> Iterator[Page]:
    """A page of somebody who is logged in, that must not have any error in its console."""
    client = Client()
    client.force_login(teammate("runner", "run"))
    context = browser.new_context(base_url=f"http://127.0.0.1:{server.port}")
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    name = f"forkline_session_{server.port}"
    context.add_cookies([{"name": name, "value": session, "domain": "127.0.0.1", "path": "/"}])
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    wait_until(server.answers)
    yield page
    context.close()
    assert errors == []


def speak(job: Job, first: int, last: int) -> None:
    """Events as a run that streams text writes them."""
    JobEvent.objects.bulk_create(
        JobEvent(
            job=job, seq=seq, kind="text", at=timezone.now(), data={"text": f"word{seq} ", "agent": "Writer"}
        )
        for seq in range(first, last + 1)
    )


def shown_words(page: Page) -> list[str]:
    return WORDS.findall(page.locator(".job-events").inner_text())


def words(last: int) -> list[str]:
    return [f"word{seq}" for seq in range(1, last + 1)]


def test_what_happens_appears_without_a_reload_and_a_reload_changes_nothing(page: Page, job: Job) -> None:
    speak(job, 1, 3)
    page.goto(job.get_absolute_url())
    page.wait_for_selector('[data-seq="3"]', state="attached")
    for last in range(4, 8):
        speak(job, last, last)
        page.wait_for_selector(f'[data-seq="{last}"]', state="attached")
    assert shown_words(page) == words(7)
    page.reload()
    assert shown_words(page) == words(7)


def test_a_server_that_goes_away_loses_and_repeats_nothing(page: Page, job: Job, server: Server) -> None:
    page.goto(job.get_absolute_url())
    speak(job, 1, 5)
    page.wait_for_selector('[data-seq="5"]', state="attached")
    server.end()
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    speak(job, 6, 60)
    server.start()
    wait_until(server.answers)
    page.wait_for_selector('[data-seq="60"]', state="attached", timeout=60_000)
    assert shown_words(page) == words(60)
    expect(page.get_by_text("Reconnecting…")).to_be_hidden()


def test_the_end_is_shown_as_it_comes_and_cancel_goes(page: Page, job: Job) -> None:
    page.goto(job.get_absolute_url())
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    job.end(Job.Status.FAILED, error=plain_text("the tool broke"), log_end="its last line")
    expect(page.locator(".job-outcome")).to_contain_text("the tool broke")
    expect(page.locator(".status-failed")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)


def test_cancel_asks_and_says_so(page: Page, job: Job) -> None:
    page.goto(job.get_absolute_url())
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Cancelling…")).to_be_disabled()
    job.refresh_from_db()
    assert job.is_being_cancelled


def test_a_run_that_begins_shows_its_bar_on_an_open_page_until_it_is_closed(page: Page, job: Job) -> None:
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


def test_a_checkpoint_that_is_written_changes_an_open_page(page: Page, job: Job) -> None:
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


def test_what_changes_while_a_part_is_fetched_is_fetched_then(page: Page, job: Job) -> None:
    page.goto(job.location.get_absolute_url())
    page.wait_for_selector("#location-contents")
    held: list[tuple[Route, APIResponse]] = []

    def hold_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route(lambda url: url.endswith(job.location.get_absolute_url()), hold_first)
    Location.objects.update(revision=1)
    page.wait_for_selector('[data-revision="1"]', state="attached")
    while not held:
        page.wait_for_timeout(20)
    Run.objects.create(location=job.location, key="kickoff", entity="crew", name="a run that came late")
    Location.objects.update(revision=2)
    page.wait_for_selector('[data-revision="2"]', state="attached")
    route, response = held[0]
    route.fulfill(response=response)
    expect(page.get_by_text("a run that came late")).to_be_visible()


def test_a_page_whose_reader_was_logged_out_says_so_and_asks_no_more(page: Page, job: Job) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda opened: asked.append(opened.url))
    for address in (job.get_absolute_url(), job.location.get_absolute_url()):
        page.goto(address)
        expect(page.locator("#logged-out")).to_be_hidden()
        page.wait_for_selector(f'[data-job="{job.pk}"][data-seq="0"]', state="attached")
        session = Session.objects.get()
        Session.objects.all().delete()
        expect(page.get_by_text("You are logged out. This page no longer updates.")).to_be_visible()
        asked.clear()
        page.wait_for_timeout(1500)
        assert asked == []
        expect(page.get_by_text("Reconnecting…")).to_be_hidden()
        # What it showed is still there to be read.
        expect(page.locator(f"#job-{job.pk}-sentence")).to_be_visible()
        session.save(force_insert=True)
    page.locator("#logged-out a").click()
    expect(page.locator("#logged-out")).to_be_hidden()
    expect(page.locator(".job-bar")).to_be_visible()


def test_who_was_logged_out_while_the_server_was_away_is_told(page: Page, job: Job, server: Server) -> None:
    page.goto(job.get_absolute_url())
    page.wait_for_selector(f'[data-job="{job.pk}"][data-seq="0"]', state="attached")
    server.end()
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    Session.objects.all().delete()
    server.start()
    expect(page.get_by_text("Logged out.")).to_be_visible()
    expect(page.get_by_text("Reconnecting…")).to_be_hidden()


def test_buttons_go_with_the_right_and_come_with_it(page: Page, job: Job) -> None:
    page.goto(job.get_absolute_url())
    cancel = page.get_by_role("button", name="Cancel")
    expect(cancel).to_be_visible()
    teammate("runner", "look")
    expect(cancel).to_have_count(0)
    expect(page.get_by_text("Read-only")).to_be_visible()
    teammate("runner", "run")
    expect(cancel).to_be_visible()


def test_a_page_of_what_was_removed_says_so(page: Page, job: Job) -> None:
    other = page.context.new_page()
    other.goto(job.get_absolute_url())
    page.goto(job.location.get_absolute_url())
    for one in (page, other):
        one.wait_for_selector(f'[data-job="{job.pk}"][data-seq="0"]', state="attached")
    job.location.delete()
    for one in (page, other):
        expect(one.get_by_text("This was removed.")).to_be_visible()


def asks(job: Job, seq: int = 1) -> Question:
    """The job's question, as the follower stores it."""
    JobEvent.objects.create(
        job=job, seq=seq, kind="task_started", at=timezone.now(), data={"task": "a", "position": 1}
    )
    question = Question.objects.create(job=job, number=1, kind="flow_input", prompt="Which one?")
    data = {"number": 1, "prompt": "Which one?"}
    JobEvent.objects.create(job=job, seq=seq + 1, kind="question", at=timezone.now(), data=data)
    return question


def test_status_plan_clock_and_title_wait_while_an_answer_is_awaited(page: Page, job: Job) -> None:
    page.goto(job.get_absolute_url())
    expect(page).to_have_title(re.compile("^running: "))
    question = asks(job)
    expect(page).to_have_title(re.compile("^waiting for an answer: "))
    expect(page.locator(f"#job-{job.pk}-state .status")).to_have_text("waiting for an answer")
    expect(page.locator(".job-step-state").first).to_have_text("waiting")
    expect(page.locator(".job-count")).to_contain_text("waiting 0:0")
    expect(page.locator(".job-sentence")).to_contain_text("is waiting for an answer")
    question.answered_at = timezone.now()
    question.save()
    JobEvent.objects.create(job=job, seq=3, kind="answered", at=timezone.now(), data={"number": 1})
    expect(page).to_have_title(re.compile("^running: "))
    expect(page.locator(f"#job-{job.pk}-state .status")).to_have_text("running")
    expect(page.locator(".job-step-state").first).to_have_text("running")
    job.end(Job.Status.FAILED)
    expect(page).to_have_title(re.compile("^failed: "))


def test_another_pages_title_says_what_waits_and_how_it_ended(page: Page, job: Job) -> None:
    page.goto(job.location.get_absolute_url())
    plain = page.evaluate("document.body.dataset.title")
    expect(page).to_have_title(f"running: {plain}")
    asks(job)
    expect(page).to_have_title(f"waiting for an answer: {plain}")
    job.end(Job.Status.SUCCEEDED)
    expect(page).to_have_title(f"succeeded: {plain}")
    page.get_by_role("button", name="Close").click()
    expect(page).to_have_title(plain)


SAID = """() => {
  window.said = [];
  const region = document.getElementById('announcements');
  const note = () => region.textContent && window.said.push(region.textContent);
  new MutationObserver(note).observe(region, {childList: true});
}"""


def said(page: Page) -> list[str]:
    return list(page.evaluate("window.said"))


def happen(job: Job, seq: int, kind: str, **data: object) -> None:
    JobEvent.objects.create(job=job, seq=seq, kind=kind, at=timezone.now(), data=data)


def test_a_question_and_a_failure_are_announced_at_once_and_once(
    page: Page, job: Job, server: Server
) -> None:
    page.goto(job.get_absolute_url())
    page.evaluate(SAID)
    job.questions.create(number=1, kind="flow_input", prompt="Tea or milk?")
    happen(job, 1, "question", number=1, prompt="Tea or milk?")
    page.wait_for_function("() => window.said.length === 1")
    words = said(page)[0]
    assert "Tea or milk?" in words and "what-if" in words
    server.end()
    expect(page.get_by_text("Reconnecting…")).to_be_visible()
    server.start()
    wait_until(server.answers)
    happen(job, 2, "answered", number=1)
    job.end(Job.Status.FAILED, plain_text("the tool broke"))
    expect(page.locator(".status-failed")).to_be_visible(timeout=60_000)
    page.wait_for_function("() => window.said.length === 2")
    assert "failed" in said(page)[1]


def test_progress_is_announced_in_turn_and_the_start_and_end_politely(page: Page, job: Job) -> None:
    page.goto(job.location.get_absolute_url())
    page.evaluate(SAID)
    began = Job.objects.create(
        kind="fork", location=job.location, branch="late", status="running", plan=job.plan
    )
    page.wait_for_function("() => window.said.length === 1")
    assert "late" in said(page)[0]
    for seq, unit in ((1, "a"), (3, "b")):
        happen(began, seq, "task_started", task=unit)
        happen(began, seq + 1, "task_completed", task=unit)
    expect(page.locator(f"#job-{began.pk}")).to_contain_text("2 of 2")
    assert len(said(page)) == 1
    # It is said ten seconds after it was first known.
    page.wait_for_function("() => window.said.length === 2")
    assert "2 of 2" in said(page)[1]
    began.end(Job.Status.SUCCEEDED)
    expect(page.locator(f"#job-{began.pk}")).to_contain_text("Forked to late")
    page.wait_for_function("() => window.said.length === 3")
    assert "Forked to late" in said(page)[2]


def test_the_page_that_a_start_leads_to_says_so_and_has_the_keyboard_there(page: Page, job: Job) -> None:
    page.goto(f"{job.location.get_absolute_url()}?job={job.pk}")
    expect(page.locator("#announcements")).to_contain_text("what-if")
    expect(page.locator(f"#job-{job.pk} .job-sentence a")).to_be_focused()


def test_the_keyboard_stays_at_a_question_that_was_answered(page: Page, job: Job) -> None:
    for number in (1, 2):
        job.questions.create(number=number, kind="flow_input", prompt=f"Question {number}?")
    page.goto(job.get_absolute_url())
    form = page.locator(f"#question-{job.pk}-1")
    form.get_by_label("Your answer").fill("tea")
    form.get_by_role("button", name="Send", exact=True).press("Enter")
    expect(form).to_contain_text("tea")
    expect(form.get_by_role("button", name="Send", exact=True)).to_have_count(0)
    expect(form).to_be_focused()


def test_the_keyboard_stays_at_a_job_that_is_cancelled(page: Page, job: Job) -> None:
    page.goto(job.get_absolute_url())
    page.get_by_role("button", name="Cancel").press("Enter")
    expect(page.get_by_role("button", name="Cancelling…")).to_be_disabled()
    expect(page.locator(".job-head a").first).to_be_focused()
