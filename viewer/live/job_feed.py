"""What an open page of a job is sent: the same parts that the page includes, each event once and in order."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.template.loader import render_to_string

from viewer.jobs.progress import Progress, advance, halt, progress_of
from viewer.jobs.timeline import Timeline, tell
from viewer.models import Job, JobEvent, Question

# A message holds no more events than this: a page that was away for long is given them piece by piece.
MOST_EVENTS = 200
# Events after which the plan looks different.
MOVING = ("task_", "method_", "steps")
# Events of which the page shows the question.
ASKING = frozenset({"question", "answered", "withdrawn"})


@dataclass(slots=True)
class JobFeed:
    """How far one page has been told of its job. ``whole``: the job's own page, else the bar of another."""

    pk: UUID
    after: int
    whole: bool = False
    progress: Progress = field(default_factory=Progress)
    timeline: Timeline = field(default_factory=Timeline)
    # The state that the page was last told.
    told: tuple[Any, ...] | None = None
    has_begun: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether all has been told, and nothing will follow."""
        return self.told is not None and self.told[0] in Job.ENDED


def begin(feed: JobFeed, job: Job) -> None:
    """Take in what the page has shown already, so that what follows goes on from there."""
    feed.progress = progress_of(job.plan)
    shown = JobEvent.objects.filter(job=job, seq__lte=feed.after)
    for event in shown.iterator(chunk_size=1000):
        advance(feed.progress, event.seq, event.kind, event.data)
        tell(feed.timeline, [event])
        feed.timeline.take_new()
    feed.progress.seq = feed.after
    feed.has_begun = True


def questions_in(
    job: Job, events: Iterable[JobEvent], *, everything: bool
) -> tuple[list[Question], list[Question]]:
    """The questions that these events are about, as they stand now: those that wait, and the others."""
    numbers = {event.data.get("number") for event in events if event.kind in ASKING}
    if not numbers and not everything:
        return [], []
    questions = job.questions.select_related("answered_by").order_by("number")
    found = list(questions if everything else questions.filter(number__in=numbers))
    waiting = [question for question in found if question.is_waiting]
    return waiting, [question for question in found if not question.is_waiting]


def next_message(feed: JobFeed) -> str | None:
    """The next fragments for the page, or None where it knows everything."""
    # The row first: whatever it says has ended has all its events behind it.
    job = Job.objects.select_related("run", "location", "project").filter(pk=feed.pk).first()
    if job is None:
        return None
    if not feed.has_begun:
        begin(feed, job)
    events = list(JobEvent.objects.filter(job=job, seq__gt=feed.progress.seq)[:MOST_EVENTS])
    terms = (job.stopped_by, job.start_at, job.due_at)
    state = (job.status, job.cancel_requested_at, job.run_id, *terms)
    # The end is told last.
    is_news = state != feed.told and len(events) < MOST_EVENTS
    if not events and not is_news:
        return None
    for event in events:
        advance(feed.progress, event.seq, event.kind, event.data)
    tell(feed.timeline, events)
    asked, answered = questions_in(job, events, everything=is_news and job.has_ended)
    moved = is_news or any(event.kind.startswith(MOVING) for event in events)
    if is_news:
        feed.told = state
        if job.has_ended:
            halt(feed.progress, job.status == Job.Status.FAILED)
    context = {
        "job": job,
        "progress": feed.progress,
        "timeline": feed.timeline.take_new(),
        "whole": feed.whole,
        "is_news": is_news,
        "moved": moved,
        "asked": asked,
        "answered": answered,
        "oob": True,
    }
    return render_to_string("viewer/jobs/_news.html", context)
