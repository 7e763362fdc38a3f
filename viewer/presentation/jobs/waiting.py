"""Sentences that say why jobs wait."""

from dataclasses import dataclass

from django.conf import settings
from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _

from viewer.data_folder import has_room
from viewer.formats.moments import short_moment
from viewer.jobs import workers
from viewer.jobs.limits.usage import Limit, midnight, reached_shared_limit
from viewer.jobs.queue.cache_warmup import waits_for_cache_warmup
from viewer.models import Job
from viewer.presentation.jobs.limit_labels import amount


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a job waits.

    ``kind`` is answer, person, time, disk, limit, cache, worker, slot or moment. ``url`` is the page to
    change it.
    """

    job: Job
    kind: str
    text: str
    url: str = ""

    @property
    def needs_a_person(self) -> bool:
        return self.kind in {"answer", "person"}


def waiting() -> list[Wait]:
    """Return every waiting job: those that need a person first, then in the order of their start."""
    asking = Q(questions__answered_at=None, questions__withdrawn_at=None, questions__isnull=False)
    jobs = Job.objects.unfinished().filter(Q(status=Job.Status.QUEUED) | asking).distinct()
    related = jobs.select_related("run", "location", "project", "sweep", "requested_by")
    waits = [wait for job in related.order_by("start_at", "created_at") if (wait := wait_of(job))]
    return sorted(waits, key=lambda wait: not wait.needs_a_person)


def wait_of(job: Job) -> Wait | None:
    """Return what the job waits for; None if it does not wait."""
    if job.is_waiting_for_an_answer:
        return Wait(job, "answer", _("for an answer"), job.get_absolute_url())
    if job.status != Job.Status.QUEUED:
        return None
    waits = _for_its_time(job) or _for_space(job) or _for_a_limit(job) or _for_the_cache(job)
    return waits or _for_a_slot(job)


def _for_its_time(job: Job) -> Wait | None:
    if job.start_at is None or job.became_due_at is not None:
        return None
    at = short_moment(job.start_at)
    if job.is_missed:
        text = _("for you: no worker was running at its start time, %(at)s. Start it manually.")
        return Wait(job, "person", text % {"at": at})
    if not workers.worker_is_up():
        return Wait(
            job, "time", _("until %(at)s. No worker is running; one must be running by then") % {"at": at}
        )
    return Wait(job, "time", _("until %(at)s") % {"at": at})


def _for_space(job: Job) -> Wait | None:
    if has_room():
        return None
    text = _("for space on the disk of %(path)s: hardly any is left. Free some")
    return Wait(job, "disk", text % {"path": settings.DATA_DIR})


def _for_a_limit(job: Job) -> Wait | None:
    limit = reached_shared_limit(job)
    return None if limit is None else Wait(job, "limit", reached_limit_text(limit), _url_of(limit, job))


def reached_limit_text(limit: Limit) -> str:
    """Return a sentence about the reached limit and its end."""
    text = {
        "sweep": _("for a limit: the sweep's limit of %(amount)s is reached"),
        "project": _("for a limit: the project's daily limit of %(amount)s is reached until %(until)s"),
        "day": _("for a limit: the daily limit of %(amount)s for all jobs is reached until %(until)s"),
    }
    until = short_moment(midnight(days=1))
    return text[limit.whose] % {"amount": amount(limit.measure, limit.max_amount), "until": until}


def _for_the_cache(job: Job) -> Wait | None:
    if job.sweep is None or not waits_for_cache_warmup(job):
        return None
    text = _("for the first variation, which warms the prompt cache for all of them")
    return Wait(job, "cache", text, job.sweep.get_absolute_url())


def _url_of(limit: Limit, job: Job) -> str:
    if limit.whose == "sweep" and job.sweep:
        return job.sweep.get_absolute_url()
    if limit.whose == "project":
        return f"{reverse('project', args=[job.location.uid])}#limits"
    return f"{reverse('jobs')}?show=limits#day-limits" if limit.whose == "day" else ""


def _for_a_slot(job: Job) -> Wait:
    if not workers.worker_is_up():
        return Wait(job, "worker", _("for a worker: none is running"))
    busy, slots = Job.objects.under_way().count(), workers.slots()
    if slots and busy >= slots:
        text = _("for a free slot: %(busy)d of %(slots)d are busy")
        return Wait(job, "slot", text % {"busy": min(busy, slots), "slots": slots})
    return Wait(job, "moment", _("a moment: it is about to start"))
