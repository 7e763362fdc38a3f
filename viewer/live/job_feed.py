"""Updates for open pages of a job: their own partials, with each event once and in order."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.template.loader import render_to_string

from viewer.engines import unit_subjects
from viewer.models import Job, JobEvent, Question
from viewer.presentation.jobs.event_list import EventList, add_events
from viewer.presentation.jobs.progress import Progress, advance, halt, progress_of

# Maximum number of events in a message. A page that was offline for a long time receives several.
MAX_EVENTS = 200
# Events that change a question.
ASKING = frozenset({"question", "answered", "withdrawn"})
# The fields of the job that a page shows.
STATE = ("status", "cancel_requested_at", "run_id", "limit_hit", "start_at", "became_due_at")


@dataclass(slots=True)
class JobFeed:
    """The feed of pages with the same job. ``whole`` is true on the job's own page, false for a bar."""

    pk: UUID
    after: int
    whole: bool = False
    # Whether the user may cancel the job and answer its questions.
    can_run: bool = False
    progress: Progress = field(default_factory=Progress)
    event_list: EventList = field(default_factory=EventList)
    # The last state that was sent.
    sent_state: tuple[Any, ...] | None = None
    has_begun: bool = False
    # The job as it was when it had ``loaded_state``: loading it costs more than rendering ten events.
    job: Job | None = None
    loaded_state: tuple[Any, ...] = ()

    @property
    def last(self) -> int:
        """The number of the last event that was sent."""
        return self.progress.seq

    @property
    def has_ended(self) -> bool:
        """Whether everything was sent and nothing follows."""
        return self.sent_state is not None and self.sent_state[0] in Job.ENDED


def begin(feed: JobFeed, job: Job) -> None:
    """Apply the events that the page already shows."""
    feed.progress = progress_of(job.plan)
    shown = JobEvent.objects.filter(job=feed.pk, seq__lte=feed.after)
    for event in shown.order_by("seq").iterator(chunk_size=1000):
        # The page is at the last stored event, even if it sent a higher number.
        advance(feed.progress, event.seq, event.kind, event.data)
        add_events(feed.event_list, [event])
        feed.event_list.pop_new()
    feed.has_begun = True


def questions_in(
    job: Job, events: Sequence[JobEvent], *, everything: bool
) -> tuple[list[Question], list[Question]]:
    """Return the questions of these events: the pending ones, and the others."""
    numbers = {event.data.get("number") for event in events if event.kind in ASKING}
    if not numbers and not everything:
        return [], []
    questions = job.questions.select_related("answered_by").order_by("number")
    found = list(questions if everything else questions.filter(number__in=numbers))
    waiting = [question for question in found if question.is_waiting]
    return waiting, [question for question in found if not question.is_waiting]


def next_message(feed: JobFeed, until: int | None = None) -> str | None:
    """Return the next HTML fragments for the page, at most to this event; None if it is up to date."""
    # Read the job first: once it has ended, all its events are stored.
    job = job_of(feed)
    if job is None:
        return None
    if not feed.has_begun:
        begin(feed, job)
    found = list(JobEvent.objects.filter(job=job, seq__gt=feed.last)[:MAX_EVENTS])
    events = [event for event in found if until is None or event.seq <= until]
    state = feed.loaded_state
    # The end is the last message.
    is_last = len(events) == len(found) < MAX_EVENTS
    is_news = is_last and state != feed.sent_state
    if not events and not is_news:
        return None
    for event in events:
        advance(feed.progress, event.seq, event.kind, event.data)
    add_events(feed.event_list, events)
    if any(event.kind in ASKING for event in events):
        job = feed.job = with_questions(job)
    if is_news:
        feed.sent_state = state
        if job.has_ended:
            halt(feed.progress, job.status == Job.Status.FAILED)
    return message_of(feed, job, events, is_news=is_news)


def job_of(feed: JobFeed) -> Job | None:
    """Return the job, which is loaded again if its state has changed; None if there is none."""
    state = next(iter(Job.objects.filter(pk=feed.pk).values_list(*STATE)), None)
    if state is None:
        feed.job = None
    elif feed.job is None or state != feed.loaded_state:
        feed.job = loaded(feed.pk)
        feed.loaded_state = tuple(getattr(feed.job, name, None) for name in STATE)
    return feed.job


def loaded(pk: UUID) -> Job | None:
    """Return the job with what pages show of it."""
    return Job.objects.select_related("run", "location", "project").filter(pk=pk).first()


def with_questions(job: Job) -> Job:
    """Return the job with its present questions; as it was in all else if its status has changed since."""
    now = loaded(job.pk)
    if now and now.status == job.status:
        return now
    vars(job).pop("is_waiting_for_an_answer", None)
    return job


def message_of(feed: JobFeed, job: Job, events: Sequence[JobEvent], *, is_news: bool) -> str:
    """Return the fragments that these events change, and the job's state if it is news."""
    asked, answered = questions_in(job, events, everything=is_news and job.has_ended)
    moving = ("steps", *(f"{subject}_" for subject in unit_subjects()))
    moved = is_news or any(event.kind.startswith(moving) or event.kind in ASKING for event in events)
    context = {
        "job": job,
        "progress": feed.progress,
        "event_list": feed.event_list.pop_new(),
        "whole": feed.whole,
        "can_run": feed.can_run,
        "is_news": is_news,
        "moved": moved,
        "asked": asked,
        "answered": answered,
        "oob": True,
    }
    return render_to_string("live/_job_update.html", context)
