"""What a job's page announces to screen readers: title, live regions and focus."""

import re

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Page, Route, expect

from tests.live.server import Server
from tests.waiting import wait_until
from viewer.messages.message import plain_text
from viewer.models import Job, JobEvent, Question, ReaderSettings

pytestmark = pytest.mark.browser


def asks(job: Job, seq: int = 1) -> Question:
    """Create a question of the job, as the worker does."""
    JobEvent.objects.create(
        job=job, seq=seq, kind="task_started", at=timezone.now(), data={"task": "a", "position": 1}
    )
    question = Question.objects.create(job=job, number=1, kind="text_input", prompt="Which one?")
    data = {"number": 1, "prompt": "Which one?"}
    JobEvent.objects.create(job=job, seq=seq + 1, kind="question", at=timezone.now(), data=data)
    return question


def test_status_plan_clock_and_title_show_a_pending_question(page: Page, job: Job) -> None:
    page.goto(job.get_absolute_url())
    expect(page).to_have_title(re.compile("^running: "))
    question = asks(job)
    expect(page).to_have_title(re.compile("^waiting for an answer: "))
    expect(page.locator(f"#job-{job.pk}-state .status")).to_have_text("waiting for an answer")
    expect(page.locator(".job-step-state").first).to_have_text("waiting")
    expect(page.locator(".job-count")).to_contain_text(re.compile(r"waiting\s+\d+ s"))
    expect(page.locator(".job-sentence")).to_contain_text("is waiting for an answer")
    question.answered_at = timezone.now()
    question.save()
    JobEvent.objects.create(job=job, seq=3, kind="answered", at=timezone.now(), data={"number": 1})
    expect(page).to_have_title(re.compile("^running: "))
    expect(page.locator(f"#job-{job.pk}-state .status")).to_have_text("running")
    expect(page.locator(".job-step-state").first).to_have_text("running")
    job.end(Job.Status.FAILED)
    expect(page).to_have_title(re.compile("^failed: "))


def test_the_title_of_another_page_shows_questions_and_outcomes(page: Page, job: Job) -> None:
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


def test_a_question_and_a_failure_are_announced_immediately_and_once(
    page: Page, job: Job, server: Server
) -> None:
    page.goto(job.get_absolute_url())
    page.evaluate(SAID)
    job.questions.create(number=1, kind="text_input", prompt="Tea or milk?")
    happen(job, 1, "question", number=1, prompt="Tea or milk?")
    page.wait_for_function("() => window.said.length === 1")
    texts = said(page)[0]
    assert "Tea or milk?" in texts and "what-if" in texts
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
    # It is announced ten seconds after it was first known.
    page.wait_for_function("() => window.said.length === 2")
    assert "2 of 2" in said(page)[1]
    began.end(Job.Status.SUCCEEDED)
    expect(page.locator(f"#job-{began.pk}")).to_contain_text("Forked to late")
    page.wait_for_function("() => window.said.length === 3")
    assert "Forked to late" in said(page)[2]


def test_the_page_after_a_start_announces_it_and_has_focus(page: Page, job: Job) -> None:
    page.goto(f"{job.location.get_absolute_url()}?job={job.pk}")
    expect(page.locator("#announcements")).to_contain_text("what-if")
    expect(page.locator(f"#job-{job.pk} .job-sentence a")).to_be_focused()


def test_focus_stays_at_an_answered_question(page: Page, job: Job) -> None:
    for number in (1, 2):
        job.questions.create(number=number, kind="text_input", prompt=f"Question {number}?")
    page.goto(job.get_absolute_url())
    form = page.locator(f"#question-{job.pk}-1")
    form.get_by_label("Your answer").fill("tea")
    form.get_by_role("button", name="Send", exact=True).press("Enter")
    expect(form).to_contain_text("tea")
    expect(form.get_by_role("button", name="Send", exact=True)).to_have_count(0)
    expect(form).to_be_focused()


def test_focus_stays_at_a_cancelled_job(page: Page, job: Job) -> None:
    page.goto(job.get_absolute_url())
    # The socket's first message replaces the button.
    page.wait_for_selector(f'[data-job="{job.pk}"][data-seq="0"]', state="attached")
    page.get_by_role("button", name="Cancel").press("Enter")
    expect(page.get_by_role("button", name="Cancelling…")).to_be_disabled()
    expect(page.locator(".job-head a").first).to_be_focused()


def test_focus_stays_at_a_cancelled_job_whose_response_comes_later(page: Page, job: Job) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)
        route.fetch()

    page.route("**/cancel/", hold)
    page.goto(job.get_absolute_url())
    # The socket's first message replaces the button.
    page.wait_for_selector(f'[data-job="{job.pk}"][data-seq="0"]', state="attached")
    page.get_by_role("button", name="Cancel").press("Enter")
    # The button was disabled during the request, and lost the focus before the socket's message replaced it.
    expect(page.get_by_role("button", name="Cancelling…")).to_be_disabled()
    expect(page.locator(".job-head a").first).to_be_focused()
    held[0].fulfill(status=204)
    expect(page.locator(".job-head a").first).to_be_focused()


NOTIFICATIONS = """() => {
  window.notifications = [];
  window.Notification = class {
    static permission = 'granted';
    constructor(title, { body, tag }) { window.notifications.push([title, body, tag]); }
  };
  Object.defineProperty(document, 'hidden', { get: () => window.isHidden });
}"""


def test_a_question_and_an_end_notify_a_person_on_another_tab(page: Page, job: Job) -> None:
    user = User.objects.get(username="runner")
    ReaderSettings.objects.create(user=user, notifies=True)
    page.add_init_script(f"({NOTIFICATIONS})()")
    page.goto(job.location.get_absolute_url())
    page.evaluate("window.isHidden = true")
    asks(job)
    page.wait_for_function("() => window.notifications.length === 1")
    title, body, tag = page.evaluate("window.notifications[0]")
    assert title == "waiting for an answer" and "what-if" in body and tag == str(job.pk)
    page.evaluate("window.isHidden = false")
    job.end(Job.Status.SUCCEEDED)
    expect(page).to_have_title(re.compile("^succeeded: "))
    assert page.evaluate("window.notifications.length") == 1


def test_notifications_have_to_be_switched_on(page: Page, job: Job) -> None:
    page.add_init_script(f"({NOTIFICATIONS})(); window.isHidden = true;")
    page.goto(job.location.get_absolute_url())
    asks(job)
    expect(page).to_have_title(re.compile("^waiting for an answer: "))
    job.end(Job.Status.FAILED)
    expect(page).to_have_title(re.compile("^failed: "))
    assert page.evaluate("window.notifications") == []
