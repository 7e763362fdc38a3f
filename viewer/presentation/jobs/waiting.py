"""What waits, and for what, in words."""

from dataclasses import dataclass

from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _

from viewer.jobs import locks
from viewer.jobs.limits.usage import Limit, amount, next_midnight, reached_shared_limit
from viewer.jobs.queue.cache_warmup import waits_for_cache_warmup
from viewer.launching.options import short_time
from viewer.models import Job


@dataclass(frozen=True, slots=True)
class Wait:
    """``kind``: answer, person, time, room, cache, worker, place or moment. ``url``: what one can change."""

    job: Job
    kind: str
    words: str
    url: str = ""

    @property
    def needs_a_person(self) -> bool:
        return self.kind in {"answer", "person"}


def waiting() -> list[Wait]:
    """All that wait, those that need a person first, then in the order in which they may start."""
    asking = Q(questions__answered_at=None, questions__withdrawn_at=None, questions__isnull=False)
    jobs = Job.objects.unfinished().filter(Q(status=Job.Status.QUEUED) | asking).distinct()
    related = jobs.select_related("run", "location", "project", "sweep", "requested_by")
    waits = [wait for job in related.order_by("start_at", "created_at") if (wait := wait_of(job))]
    return sorted(waits, key=lambda wait: not wait.needs_a_person)


def wait_of(job: Job) -> Wait | None:
    """What the job waits for; None where it does not wait."""
    if job.is_waiting_for_an_answer:
        return Wait(job, "answer", _("for an answer"), job.get_absolute_url())
    if job.status != Job.Status.QUEUED:
        return None
    return _for_its_time(job) or _for_room(job) or _for_the_cache(job) or _for_a_place(job)


def _for_its_time(job: Job) -> Wait | None:
    if job.start_at is None or job.became_due_at is not None:
        return None
    at = short_time(job.start_at)
    if job.is_missed:
        words = _("for you: at %(at)s, when it was to start, no worker was up. By itself it starts no more.")
        return Wait(job, "person", words % {"at": at})
    if not locks.worker_is_up():
        return Wait(job, "time", _("until %(at)s; no worker is up, and one has to be by then") % {"at": at})
    return Wait(job, "time", _("until %(at)s") % {"at": at})


def _for_room(job: Job) -> Wait | None:
    limit = reached_shared_limit(job)
    return None if limit is None else Wait(job, "room", room_words(limit), _url_of(limit, job))


def room_words(limit: Limit) -> str:
    """Which limit is used up, and until when."""
    words = {
        "sweep": _("for room: the limit of %(amount)s for all its variations is reached"),
        "project": _("for room: the project's limit of %(amount)s a day is reached until %(until)s"),
        "day": _("for room: the limit of %(amount)s a day for all jobs is reached until %(until)s"),
    }
    until = short_time(next_midnight())
    return words[limit.whose] % {"amount": amount(limit.measure, limit.most), "until": until}


def _for_the_cache(job: Job) -> Wait | None:
    if job.sweep is None or not waits_for_cache_warmup(job):
        return None
    words = _("for the first of its variations, which warms the prompt cache for all")
    return Wait(job, "cache", words, job.sweep.get_absolute_url())


def _url_of(limit: Limit, job: Job) -> str:
    if limit.whose == "sweep" and job.sweep:
        return job.sweep.get_absolute_url()
    if limit.whose == "project":
        return f"{reverse('project', args=[job.location.uid])}#limits"
    return f"{reverse('jobs')}?show=limits#day-limits" if limit.whose == "day" else ""


def _for_a_place(job: Job) -> Wait:
    if not locks.worker_is_up():
        return Wait(job, "worker", _("for a worker: none is up"))
    busy, places = Job.objects.under_way().count(), locks.slots()
    if places and busy >= places:
        words = _("for a free place: %(busy)d of %(places)d are busy")
        return Wait(job, "place", words % {"busy": min(busy, places), "places": places})
    return Wait(job, "moment", _("for a moment: it is about to start"))
