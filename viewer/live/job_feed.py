"""Updates for an open page of a job: its own partials, with each event once and in order.

Pages in the same state receive the same message, which is rendered once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Subquery
from django.template.loader import render_to_string
from django.utils.translation import get_language

from viewer.engines import unit_subjects
from viewer.models import Job, JobEvent, Question
from viewer.presentation.jobs.progress import Progress, advance, halt, progress_of
from viewer.presentation.jobs.timeline import Timeline, add_events

# Maximum number of events in a message. A page that was offline for long gets several.
MAX_EVENTS = 200
# Events that change a question.
ASKING = frozenset({"question", "answered", "withdrawn"})
# The fields of the job that a page shows.
STATE = ("status", "cancel_requested_at", "run_id", "limit_hit", "start_at", "became_due_at")
LAST_EVENT = Subquery(JobEvent.objects.filter(job=OuterRef("pk")).order_by("-seq").values("seq")[:1])


@dataclass(slots=True)
class JobFeed:
    """What one page knows of its job. ``whole`` is true on the job's own page, false for a bar."""

    pk: UUID
    after: int
    whole: bool = False
    # Whether the user may cancel the job and answer its questions.
    can_run: bool = False
    progress: Progress = field(default_factory=Progress)
    timeline: Timeline = field(default_factory=Timeline)
    # The last state that was sent.
    sent_state: tuple[Any, ...] | None = None
    has_begun: bool = False
    # The last message was full, or cached for another page: more may follow.
    has_more: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether everything was sent and nothing follows."""
        return self.sent_state is not None and self.sent_state[0] in Job.ENDED


@dataclass(frozen=True, slots=True)
class Made:
    """A rendered message, the job's state in it, and the feed after it.

    The feed is read-only: every page that receives the message continues from it.
    """

    message: str
    state: tuple[Any, ...]
    feed: JobFeed


# The latest messages, by what the page knew and the job's state.
_made: dict[tuple[Any, ...], Made] = {}
MAX_MADE = 64
# One socket renders a message while the others wait for it.
_making = Lock()


def begin(feed: JobFeed) -> None:
    """Apply the events that the page already shows."""
    feed.progress = progress_of(Job.objects.values_list("plan", flat=True).get(pk=feed.pk))
    shown = JobEvent.objects.filter(job=feed.pk, seq__lte=feed.after)
    for event in shown.iterator(chunk_size=1000):
        advance(feed.progress, event.seq, event.kind, event.data)
        add_events(feed.timeline, [event])
        feed.timeline.pop_new()
    feed.progress.seq = feed.after
    feed.has_begun = True


def questions_in(
    job: Job, events: Iterable[JobEvent], *, everything: bool
) -> tuple[list[Question], list[Question]]:
    """Return the questions of these events: those that wait, and the others."""
    numbers = {event.data.get("number") for event in events if event.kind in ASKING}
    if not numbers and not everything:
        return [], []
    questions = job.questions.select_related("answered_by").order_by("number")
    found = list(questions if everything else questions.filter(number__in=numbers))
    waiting = [question for question in found if question.is_waiting]
    return waiting, [question for question in found if not question.is_waiting]


def next_message(feed: JobFeed) -> str | None:
    """Return the next HTML fragments for the page; None if it is up to date."""
    present = Job.objects.filter(pk=feed.pk).values_list(*STATE, LAST_EVENT).first()
    if present is None:
        return None
    if not feed.has_begun:
        begin(feed)
    state, last = present[:-1], present[-1] or 0
    if state == feed.sent_state and last <= feed.progress.seq:
        return None
    page = (feed.pk, feed.whole, feed.can_run, get_language())
    known = (*page, feed.progress.seq, repr(feed.sent_state), repr(state))
    with _making:
        made = _made.get(known) or make(feed)
        if made is None:
            return None
        # If the job has changed meanwhile, it might change back.
        if made.state == state:
            _made[known] = made
        while len(_made) > MAX_MADE:
            del _made[next(iter(_made))]
    feed.progress, feed.timeline = made.feed.progress, made.feed.timeline
    feed.sent_state, feed.has_more = made.feed.sent_state, made.feed.has_more or made.feed.progress.seq < last
    return made.message


def make(known: JobFeed) -> Made | None:
    """Return the message after this feed's state; None if there is none."""
    # Read the job first: once it has ended, all its events are stored.
    job = Job.objects.select_related("run", "location", "project").filter(pk=known.pk).first()
    if job is None:
        return None
    events = list(JobEvent.objects.filter(job=job, seq__gt=known.progress.seq)[:MAX_EVENTS])
    state = tuple(getattr(job, name) for name in STATE)
    has_more = len(events) == MAX_EVENTS
    # The end is sent last.
    is_news = state != known.sent_state and not has_more
    if not events and not is_news:
        return None
    timeline = replace(known.timeline, rows=[])
    feed = replace(known, progress=known.progress.copy(), timeline=timeline, has_more=has_more)
    for event in events:
        advance(feed.progress, event.seq, event.kind, event.data)
    add_events(feed.timeline, events)
    asked, answered = questions_in(job, events, everything=is_news and job.has_ended)
    moving = ("steps", *(f"{subject}_" for subject in unit_subjects()))
    moved = is_news or any(event.kind.startswith(moving) or event.kind in ASKING for event in events)
    if is_news:
        feed.sent_state = state
        if job.has_ended:
            halt(feed.progress, job.status == Job.Status.FAILED)
    context = {
        "job": job,
        "progress": feed.progress,
        "timeline": feed.timeline.pop_new(),
        "whole": feed.whole,
        "can_run": feed.can_run,
        "is_news": is_news,
        "moved": moved,
        "asked": asked,
        "answered": answered,
        "oob": True,
    }
    return Made(render_to_string("live/_job_update.html", context), state, feed)
