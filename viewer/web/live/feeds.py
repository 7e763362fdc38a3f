"""What open pages receive: that the rows which they show have changed, and the events of a job.

The page then fetches its contents. A page of a location also receives the bars of new jobs.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Count, Q, Sum
from django.template.loader import render_to_string
from django.utils.text import Truncator
from django.utils.timezone import localtime
from django.utils.translation import ngettext

from viewer.engines import unit_subjects
from viewer.formats import count_text, moment_text
from viewer.models import Access, Job, JobEvent, Location, Question, ShareLink, access_of
from viewer.models.roles import restricted_to
from viewer.presentation.jobs.events import (
    EventList,
    EventRow,
    Progress,
    add_events,
    advance,
    halt,
    progress_of,
)
from viewer.presentation.jobs.pages import shown_job
from viewer.presentation.share_links import state_of, states_of
from viewer.stores.protocol import count_of

# Why a socket is closed: the page reads these codes in static/js/live.js.
# Nothing more follows, so the page does not reconnect.
NORMAL_CLOSURE = 1000
# The page reconnects, and receives what it missed.
INTERNAL_ERROR = 1011
TRY_AGAIN_LATER = 1013
# The page does not reconnect after these.
LOGGED_OUT = 4401
RIGHT_CHANGED = 4403
# The job or the location was removed.
NOT_THERE = 4404

HOME = "home"
# Differs from every state.
UNSEEN = object()
# The state of each group's rows; None if they are gone.
States = dict[str, object]


@dataclass(frozen=True, slots=True)
class HomeState:
    """Numbers of which at least one changes whenever the home page changes."""

    revision: int
    jobs: int
    under_way: int
    ended: int
    questions: int
    cancelling: int

    @property
    def mark(self) -> str:
        """Everything but the revision of the locations, as one text."""
        return f"{self.jobs}-{self.under_way}-{self.ended}-{self.questions}-{self.cancelling}"


def home_state() -> HomeState:
    """Return the present state."""
    revision = Location.objects.aggregate(total=Sum("revision"))["total"] or 0
    jobs = Job.objects.aggregate(
        all=Count("pk"),
        under_way=Count("pk", filter=Q(status__in=[Job.Status.STARTING, Job.Status.RUNNING])),
        ended=Count("pk", filter=Q(status__in=Job.ENDED)),
        cancelling=Count("pk", filter=Q(cancel_requested_at__isnull=False) & ~Q(status__in=Job.ENDED)),
    )
    waiting = Question.objects.waiting().count()
    return HomeState(revision, jobs["all"], jobs["under_way"], jobs["ended"], waiting, jobs["cancelling"])


# What pages show is named by a group: ``home``, ``location.<uid>`` or ``share.<pk>``. People who see only
# some locations have their own: ``home.<user>`` and ``location.<uid>.<user>``.


def home_group(access: Access) -> str:
    """Return the group of the home pages of people with this access."""
    return HOME if access.everywhere else f"{HOME}.{access.user}"


def location_group(uid: UUID, access: Access) -> str:
    """Return the group of the pages of this location, of people with this access.

    Some do not see jobs that write there from a checkpoint of another location.
    """
    return f"location.{uid}" if access.everywhere else f"location.{uid}.{access.user}"


def share_group(pk: int) -> str:
    """Return the group of the pages of this share link."""
    return f"share.{pk}"


def states_of_groups(groups: Collection[str]) -> States:
    """Return the states of these groups, with the same few queries for any number of them."""
    keys = {kind: [one.partition(".")[2] for one in groups if one.startswith(f"{kind}.")] for kind in READERS}
    # None for rows that are gone.
    states: States = dict.fromkeys(groups)
    for group in groups:
        if group.partition(".")[0] == HOME:
            with _seen_by(group.partition(".")[2]):
                states[group] = home_state()
    if keys["location"]:
        shown = Location.objects.filter(uid__in=[key.partition(".")[0] for key in keys["location"]]).annotate(
            made=Count("jobs"), ended=Count("jobs", filter=Q(jobs__status__in=Job.ENDED))
        )
        rows = shown.values_list("uid", "revision", "made", "ended")
        found = {str(uid): tuple(state) for uid, *state in rows}
        states |= {f"location.{key}": found.get(key.partition(".")[0]) for key in keys["location"]}
    return states | {f"share.{pk}": state for pk, state in states_of(keys["share"]).items()}


def changed(seen: States, groups: Collection[str]) -> set[str]:
    """Return the groups whose rows differ from those in ``seen``, including new groups. Updates ``seen``."""
    present = states_of_groups(groups)
    found = {group for group, state in present.items() if seen.get(group, UNSEEN) != state}
    seen.clear()
    seen |= present
    return found


@dataclass(frozen=True, slots=True)
class Rows:
    """What is read of a group. Pages have to fetch their contents if ``state`` has changed."""

    state: object
    template: str
    context: dict[str, Any]
    # The unfinished jobs whose bars pages show.
    jobs: Sequence[Job] = ()


@contextmanager
def _seen_by(user: str) -> Iterator[None]:
    """Within the block, see what a user may; all rows if it is empty."""
    person = User.objects.filter(pk=user).first() or AnonymousUser() if user else None
    with restricted_to(lambda: access_of(person)) if person else nullcontext():
        yield


def _home(user: str) -> Rows:
    with _seen_by(user):
        state = home_state()
    return Rows(state, "live/_home_revision.html", {"state": state})


def _location(key: str) -> Rows | None:
    uid, _dot, user = key.partition(".")
    # If the role was taken, the consumer closes the socket with RIGHT_CHANGED.
    location = Location.objects.filter(uid=uid).first()
    if location is None:
        return None
    with _seen_by(user):
        ended = Job.objects.ended().filter(location=location).count()
        unfinished = Job.objects.unfinished().filter(location=location).select_related("run", "location")
        jobs = list(unfinished.order_by("created_at"))
    context = {"location": location, "ended": ended}
    return Rows((location.revision, ended), "live/_location_update.html", context, jobs)


def _share(pk: str) -> Rows | None:
    link = ShareLink.objects.select_related("made_by").filter(pk=pk).first()
    state = state_of(link) if link else None
    return None if state is None else Rows(state, "shared/_state.html", {"state": state})


READERS: dict[str, Callable[[str], Rows | None]] = {"home": _home, "location": _location, "share": _share}


@dataclass(slots=True)
class RowsFeed:
    """The feed of pages of one group. ``jobs`` are the jobs whose bars they show."""

    group: str
    # Whether the user may cancel them.
    can_run: bool = False
    jobs: frozenset[str] = frozenset()
    sent_state: object = field(default=None)
    # The code to close its sockets with after the last message.
    close_code: int | None = None

    @property
    def audience(self) -> tuple[Hashable, ...]:
        """The values that are equal for pages with the same messages."""
        return self.group, self.can_run

    @property
    def start(self) -> Hashable:
        """What the first message depends on besides the audience."""
        return self.jobs

    def read(self) -> Rows | None:
        """Return the present rows; None if they are gone."""
        kind, _dot, key = self.group.partition(".")
        return READERS[kind](key)

    def next_message(self) -> str | None:
        """Return the next HTML fragments for the pages; None if they are up to date."""
        return self.message_with(self.read())

    def message_with(self, rows: Rows | None) -> str | None:
        """Return the fragments for what has changed in these rows; None if nothing has."""
        if rows is None:
            self.close_code = NOT_THERE
            return None
        new = [job for job in rows.jobs if str(job.pk) not in self.jobs]
        if rows.state == self.sent_state and not new:
            return None
        self.sent_state = rows.state
        self.jobs |= {str(job.pk) for job in new}
        shown = {"jobs": [shown_job(job) for job in new], "can_run": self.can_run, "oob": True}
        return render_to_string(rows.template, rows.context | shown)

    def align(self, other: Any) -> tuple[list[str], list[str]]:
        """Bring two feeds of an audience to the same rows. Return what each still has to send."""
        rows = self.read()
        own, others = self.message_with(rows), other.message_with(rows)
        return [own] if own else [], [others] if others else []


# As in templates/jobs/_events.html.
MAX_SUMMARY = 120


class RowData(msgspec.Struct, omit_defaults=True):
    """A row as templates/jobs/_events.html shows it. ``event`` is the event's number."""

    event: int
    kind: str
    tone: str
    at: str
    clock: str
    text: str
    agent: str = ""
    checkpoint: str = ""
    detail: str = ""
    # The beginning of the detail.
    summary: str = ""
    tokens: str = ""


class Update(msgspec.Struct, omit_defaults=True):
    """One message. ``seq`` is the number of the last event that it holds."""

    job: str
    seq: int
    # Fragments of the page that replace what it shows.
    html: str = ""
    # The streamed text in the progress bar.
    text: str = ""
    # Text to append to a row that was already sent.
    added_to: int | None = None
    added: str = ""
    rows: list[RowData] = []
    # The address of the run, to which rows with a checkpoint link.
    run: str = ""


def plain(value: object) -> str:
    """Return Django's safe strings as plain ones, which are all that is encoded."""
    if isinstance(value, str):
        return "".join(value)
    raise TypeError(f"cannot encode {type(value).__name__}")


encoder = msgspec.json.Encoder(enc_hook=plain)


def encoded(job: Job, progress: Progress, news: EventList, html: str, *, text: str) -> str:
    """Return the message with these rows and fragments, and this streamed text."""
    links = job.run is not None and any(row.checkpoint for row in news.rows)
    update = Update(
        job=str(job.pk),
        seq=progress.seq,
        html=html,
        text=text,
        added_to=news.added_to,
        added=news.added,
        rows=[data_of(row) for row in news.rows],
        run=job.run.get_absolute_url() if links and job.run else "",
    )
    return encoder.encode(update).decode()


def data_of(row: EventRow) -> RowData:
    """Return the values of a row, with their labels in the current language."""
    at = localtime(row.at)
    return RowData(
        event=row.seq,
        kind=row.kind,
        tone=row.tone,
        at=at.isoformat(),
        clock=moment_text(row.at, "clock"),
        text=row.text,
        agent=row.agent,
        checkpoint=row.checkpoint,
        detail=row.detail,
        summary=Truncator(row.detail).chars(MAX_SUMMARY) if row.detail else "",
        tokens=tokens_label(row.tokens) if row.tokens else "",
    )


def tokens_label(count: int) -> str:
    """Return a number of tokens with its unit."""
    return ngettext("%(counter)s token", "%(counter)s tokens", count) % {"counter": count_text(count)}


# Maximum number of events in a message. A page that was offline for a long time receives several.
MAX_EVENTS = 200
# Events that change a question.
ASKING = frozenset({"question", "answered", "withdrawn"})
# The fields of the job that a page shows.
STATE = (
    "status",
    "cancel_requested_at",
    "run_id",
    "limit_hit",
    "start_at",
    "became_due_at",
    "continued_by_id",
)


@dataclass(frozen=True, slots=True)
class News:
    """The values of ``STATE``, None if the job is gone, and at most ``MAX_EVENTS`` new events in order."""

    state: tuple[Any, ...] | None
    events: Sequence[JobEvent]


@dataclass(slots=True)
class JobFeed:
    """The feed of pages with the same job. ``whole`` is true on the job's own page, false for a bar.

    ``of_call`` is true for the bar on the page of the model call that the job replays.
    """

    pk: UUID
    after: int
    whole: bool = False
    # Whether the user may cancel the job and answer its questions.
    can_run: bool = False
    of_call: bool = False
    progress: Progress = field(default_factory=Progress)
    event_list: EventList = field(default_factory=EventList)
    # The last state that was sent.
    sent_state: tuple[Any, ...] | None = None
    # What was last sent of the progress as HTML.
    sent_shape: tuple[Any, ...] | None = None
    sent_text: str = ""
    has_begun: bool = False
    is_gone: bool = False
    # The job as it was when it had ``loaded_state``: loading it costs more than rendering ten events.
    job: Job | None = None
    loaded_state: tuple[Any, ...] = ()

    @property
    def audience(self) -> tuple[Hashable, ...]:
        """The values that are equal for pages with the same messages."""
        return "job", self.pk, self.whole, self.of_call, self.can_run

    @property
    def start(self) -> Hashable:
        """What the first message depends on besides the audience."""
        return self.after

    @property
    def last(self) -> int:
        """The number of the last event that was sent."""
        return self.progress.seq

    @property
    def close_code(self) -> int | None:
        """The code to close its sockets with once everything was sent and nothing follows."""
        if self.is_gone:
            return NOT_THERE
        has_ended = self.sent_state is not None and self.sent_state[0] in Job.ENDED
        return NORMAL_CLOSURE if has_ended else None

    def next_message(self, until: int | None = None) -> str | None:
        """Return the next message, at most to this event; None if the pages are up to date."""
        return message_of(self, read(self), until)

    def messages_with(self, state: tuple[Any, ...] | None, events: Sequence[JobEvent]) -> list[str]:
        """Return the messages with these events, without those that were sent before."""
        new = [event for event in events if event.seq > self.last]
        messages = []
        while message := message_of(self, News(state, new[:MAX_EVENTS])):
            messages.append(message)
            new = new[MAX_EVENTS:]
        return messages

    def align(self, other: Any) -> tuple[list[str], list[str]]:
        """Bring two feeds of an audience to the same event. Return what each still has to send."""
        own = []
        while self.last < other.last and (message := self.next_message()):
            own.append(message)
        return own, list(iter(partial(other.next_message, until=self.last), None))


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
    numbers = {count_of(event.data.get("number")) for event in events if event.kind in ASKING}
    if not numbers and not everything:
        return [], []
    questions = job.questions.select_related("answered_by").order_by("number")
    found = list(questions if everything else questions.filter(number__in=numbers))
    waiting = [question for question in found if question.is_waiting]
    return waiting, [question for question in found if not question.is_waiting]


def read(feed: JobFeed) -> News:
    """Return what has changed since the feed's last message."""
    # Read the state first: once the job has ended, all its events are stored.
    state = job_states([feed.pk]).get(feed.pk)
    if state is None:
        return News(None, [])
    if not feed.has_begun and (job := job_of(feed, state)):
        begin(feed, job)
    return News(state, list(JobEvent.objects.filter(job=feed.pk, seq__gt=feed.last)[:MAX_EVENTS]))


def job_states(jobs: Collection[UUID]) -> dict[UUID, tuple[Any, ...]]:
    """Return the values of ``STATE`` of these jobs, without those that are gone."""
    return {pk: tuple(state) for pk, *state in Job.objects.filter(pk__in=jobs).values_list("pk", *STATE)}


def message_of(feed: JobFeed, news: News, until: int | None = None) -> str | None:
    """Return the message with this news, of which no events were sent; None if the page is up to date."""
    job = job_of(feed, news.state)
    feed.is_gone = job is None
    if job is None:
        return None
    events = [event for event in news.events if until is None or event.seq <= until]
    state = feed.loaded_state
    # The end is the last message.
    is_last = len(events) == len(news.events) < MAX_EVENTS
    is_news = is_last and state != feed.sent_state
    if not events and not is_news:
        return None
    for event in events:
        advance(feed.progress, event.seq, event.kind, event.data)
    if feed.whole:
        add_events(feed.event_list, events)
    if any(event.kind in ASKING for event in events):
        job = feed.job = with_questions(job)
    if is_news:
        feed.sent_state = state
        if job.has_ended:
            halt(feed.progress, job.status)
    html = fragments(feed, job, events, is_news=is_news)
    rows = feed.event_list.pop_new() if feed.whole else EventList()
    is_text_new = feed.progress.text != feed.sent_text
    feed.sent_text = feed.progress.text
    return encoded(job, feed.progress, rows, html, text=feed.sent_text if is_text_new and not html else "")


def job_of(feed: JobFeed, state: tuple[Any, ...] | None) -> Job | None:
    """Return the job, which is loaded again if its state has changed; None if there is none."""
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


def fragments(feed: JobFeed, job: Job, events: Sequence[JobEvent], *, is_news: bool) -> str:
    """Return the HTML of what has changed besides rows and text, and of the job's state if it is news."""
    asked, answered = questions_in(job, events, everything=is_news and job.has_ended)
    moving = ("steps", *(f"{subject}_" for subject in unit_subjects()))
    moved = is_news or any(event.kind.startswith(moving) or event.kind in ASKING for event in events)
    shape = feed.progress.shape
    # Each page fetches the answers: comparing them would take the renderer's time from all pages.
    is_answered = is_news or any(event.kind == "call_replayed" for event in events)
    has_answers = job.kind == Job.Kind.REPLAY and (feed.whole or feed.of_call) and is_answered
    if not (moved or has_answers) and shape == feed.sent_shape:
        return ""
    feed.sent_shape = shape
    context = {
        "job": job,
        "progress": feed.progress,
        "whole": feed.whole,
        "can_run": feed.can_run,
        "is_news": is_news,
        "moved": moved,
        "has_answers": has_answers,
        "asked": asked,
        "answered": answered,
        "oob": True,
    }
    return render_to_string("live/_job_update.html", context)
