"""What open pages of the home page, of a location and of a share link receive: that something has changed.

The page then fetches its contents. A page of a location also receives the bars of new jobs.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Count, Q, Sum
from django.template.loader import render_to_string

from viewer.models import Access, Job, Location, Question, ShareLink, access_of
from viewer.models.roles import restricted_to
from viewer.presentation.jobs.pages import shown_job
from viewer.presentation.share_links import state_of, states_of
from viewer.web.live.admission import NOT_THERE

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
    # If the role was taken, admission closes the socket with RIGHT_CHANGED.
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
