"""Sentences about a job: its status, why it waits, its limits and warnings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.utils.translation import gettext_lazy as _

from viewer.data_folder.failures import folder_fault
from viewer.formats import count_text, duration, money, short_moment
from viewer.host_requests import ReadWorkers, Workers, ask, each_asked_once
from viewer.messages.message import message_from
from viewer.messages.translation import translate
from viewer.models import Host, Job, Pool, Question, Team
from viewer.models.jobs import FILE_PREFIX
from viewer.postgresql import rows_identity
from viewer.presentation.hosts import away_text, refusal_of
from viewer.records.hosts import hosts_that_may_start, is_away, is_here, is_stalled, warming_branch
from viewer.records.limits import (
    QUOTAS,
    Limit,
    limit_in,
    limits_in,
    midnight,
    quota_message,
    reached_shared_limit,
    usage_of,
    used_by_team,
)
from viewer.records.permissions import may_start

# The warnings of a job.


MAX_WARNINGS = 20


def warnings_of(job: Job) -> list[str]:
    """Return the distinct warnings of the job, in order, as at most ``MAX_WARNINGS`` sentences."""
    # The outcome of a succeeded job already counts the checkpoints that could not be written.
    kinds = ["warning"] if job.status == Job.Status.SUCCEEDED else ["warning", "checkpoint_failed"]
    events = job.events.filter(kind__in=kinds).order_by("seq").values_list("kind", "data")
    sentences = [_sentence(kind, data) for kind, data in events]
    return list(dict.fromkeys(filter(None, sentences)))[:MAX_WARNINGS]


def _sentence(kind: str, data: Mapping[str, Any]) -> str:
    if kind == "checkpoint_failed":
        return gettext("Writing a checkpoint failed: %(error)s") % {"error": data.get("error") or ""}
    return translate(message_from(data.get("message")))


# The texts of limits and their usage, for pages and the terminal.


# Why a run was stopped, for each kind of limit.
STOPPED_BY_LIMIT: dict[str, str | Promise] = {
    "job": gettext_lazy("Stopped at its limit of %(amount)s."),
    "sweep": gettext_lazy("Stopped at the limit of %(amount)s for all its variations."),
    "project": gettext_lazy("Stopped at the project's limit of %(amount)s a day."),
    "day": gettext_lazy("Stopped at the limit of %(amount)s a day for all jobs."),
}


def amount(measure: str, number: float) -> str:
    """An amount with its unit: ``20,000 tokens``, ``90 seconds``, ``5 runs at once``, ``$20.00``."""
    if measure == "cost":
        return money(number)
    if measure == "seconds" and number >= 120 and number % 60 == 0:
        measure, number = "minutes", number / 60
    number = int(number) if number == int(number) else round(number, 1)
    shown = {"number": count_text(number)}
    # A fraction has the plural of several.
    count = int(number) if number == int(number) else 2
    labels = {
        "tokens": ngettext("%(number)s token", "%(number)s tokens", count),
        "steps": ngettext("%(number)s step", "%(number)s steps", count),
        "seconds": ngettext("%(number)s second", "%(number)s seconds", count),
        "minutes": ngettext("%(number)s minute", "%(number)s minutes", count),
        "runs": ngettext("%(number)s run at once", "%(number)s runs at once", count),
    }
    return labels[measure] % shown


def usage_label(limit: Limit, used: float) -> str:
    """The used part of a limit: ``1,250 of 20,000 tokens``, ``35 seconds of 10 minutes``."""
    number = money(used) if limit.measure == "cost" else count_text(int(used))
    shown = amount(limit.measure, int(used)) if limit.measure == "seconds" else number
    return gettext("%(used)s of %(most)s") % {"used": shown, "most": amount(limit.measure, limit.max_amount)}


def daily_usage(limits: Mapping[str, float], jobs: QuerySet[Job]) -> list[str]:
    """How much of each daily limit these jobs have used since midnight."""
    used = usage_of(jobs, midnight()) if limits else {}
    return [usage_label(limit, used[limit.measure]) for limit in limits_in("day", limits)]


def team_usage(team: Team) -> list[str]:
    """How much of each quota of a team is used: ``2 of 5 runs at once``, ``$3.10 of $20.00``."""
    limits = [Limit("team", measure, team.quotas[measure]) for measure in QUOTAS if measure in team.quotas]
    return [usage_label(limit, used_by_team(team, limit.measure)) for limit in limits]


def limit_label(job: Job) -> str:
    """A sentence that says which limit has stopped the job. Empty if none has."""
    if not job.limit_hit:
        return ""
    limit = limit_in(job.limit_hit)
    if limit is None:
        return gettext("Stopped at a limit that it shares with other runs.")
    if limit.whose == "team":
        text = gettext("Stopped at a quota. %(quota)s")
        return text % {"quota": translate(quota_message(limit, at=job.ended_at))}
    stopped = str(STOPPED_BY_LIMIT[limit.whose]) % {"amount": amount(limit.measure, limit.max_amount)}
    used = usage_of(Job.objects.filter(pk=job.pk))[limit.measure] if limit.whose == "job" else 0
    if used <= limit.max_amount:
        return stopped
    text = gettext("It had used %(used)s, %(more)s more.")
    passed = amount(limit.measure, round(used - limit.max_amount, 1))
    return f"{stopped} {text % {'used': amount(limit.measure, round(used, 1)), 'more': passed}}"


# Sentences that say why jobs wait.


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a job waits.

    ``kind`` is answer, person, admin, time, host, disk, limit, cache, worker, slot or moment. ``url`` is the
    page to change it.
    """

    job: Job
    kind: str
    text: str
    url: str = ""

    @property
    def needs_a_person(self) -> bool:
        return self.kind in {"answer", "person", "admin"}


def waiting() -> list[Wait]:
    """Return every waiting job: those that need a person first, then in the order of their start."""
    asking = Q(pk__in=Question.objects.waiting().values("job"))
    jobs = Job.objects.unfinished().filter(Q(status=Job.Status.QUEUED) | asking)
    jobs = jobs.order_by("start_at", "created_at").select_related(
        *(
            "run",
            "host",
            "location__host",
            "location__pool",
            "project",
            "sweep",
            "requested_by",
            "continued_by",
        )
    )
    known = SharedReasons()
    with each_asked_once():
        waits = [wait for job in jobs if (wait := wait_of(job, known))]
    return sorted(waits, key=lambda wait: not wait.needs_a_person)


Found = TypeVar("Found")


class SharedReasons(dict[tuple[object, ...], Any]):
    """What queued jobs wait for, each found once for all jobs that share it: there may be thousands."""

    def of(self, find: Callable[[], Found], *shared: object) -> Found:
        """Return what ``find`` returns for the first job with these values."""
        if shared not in self:
            self[shared] = find()
        found: Found = self[shared]
        return found

    def is_away(self, host: Host) -> bool:
        return self.of(lambda: is_away(host.pk), "away", host.pk)

    def is_here(self, host: Host) -> bool:
        return self.of(lambda: is_here(host.pk), "here", host.pk)

    def workers_of(self, host: Host) -> Workers:
        return self.of(lambda: workers_of(host), "workers", host.pk)

    def hosts_that_may_start(self, job: Job) -> list[Host]:
        return self.of(lambda: hosts_that_may_start(job), "hosts", job.host_id, job.location_id)


def wait_of(job: Job, known: SharedReasons | None = None) -> Wait | None:
    """Return what the job waits for; None if it does not wait. Several jobs share what is ``known``."""
    if job.is_waiting_for_an_answer:
        return Wait(job, "answer", gettext("for an answer"), job.get_absolute_url())
    if job.status != Job.Status.QUEUED:
        return None
    known = SharedReasons() if known is None else known
    waits = (
        _for_a_person(job)
        or _for_an_admin(job, known)
        or _for_its_time(job, known)
        or _for_its_host(job, known)
        or _for_space(job, known)
        or _for_a_limit(job, known)
        or _for_the_cache(job, known)
    )
    return waits or _for_a_slot(job, known)


def _for_a_person(job: Job) -> Wait | None:
    is_of_pool = not job.host_id and job.queued_in and not job.queued_in.startswith(FILE_PREFIX)
    if not job.is_in_copy and (not is_of_pool or job.queued_in == rows_identity()):
        return None
    text = gettext(
        "for you: its database was replaced after it was queued, and may lack that another host has started"
        " it. If none has, cancel it and start another."
    )
    return Wait(job, "person", text)


def _for_an_admin(job: Job, known: SharedReasons) -> Wait | None:
    shared = job.location_id, job.checkpoint_id, job.requester_key, job.requested_by_id, job.continued_by_id
    if known.of(lambda: may_start(job), "right", *shared):
        return None
    if job.acts_for is None:
        return Wait(job, "admin", gettext("for an admin: the account that started it was deleted"))
    text = gettext("for an admin: %(person)s may no longer start it")
    return Wait(job, "admin", text % {"person": job.acts_for.get_username()})


def _for_its_time(job: Job, known: SharedReasons) -> Wait | None:
    if job.start_at is None or job.became_due_at is not None:
        return None
    at = short_moment(job.start_at)
    if job.is_missed:
        text = gettext("for you: no worker was running at its start time, %(at)s. Start it manually.")
        return Wait(job, "person", text % {"at": at})
    if not known.workers_of(job.runs_on).is_up:
        return Wait(
            job,
            "time",
            gettext("until %(at)s. No worker is running; one must be running by then") % {"at": at},
        )
    return Wait(job, "time", gettext("until %(at)s") % {"at": at})


def _for_its_host(job: Job, known: SharedReasons) -> Wait | None:
    if job.location.pool and job.host_id is None:
        return None if known.hosts_that_may_start(job) else _for_its_pool(job, job.location.pool)
    host = job.runs_on
    if known.is_away(host):
        return Wait(job, "host", gettext("for %(host)s") % {"host": away_text(host)}, reverse("hosts"))
    is_elsewhere = host.pk != job.location.host_id
    if is_elsewhere and (refusal := refusal_of(host, job.location)):
        return Wait(job, "host", gettext("for %(host)s") % {"host": refusal}, reverse("hosts"))
    if host.is_drained:
        text = gettext("for %(host)s, which takes no new jobs now") % {"host": host.name}
        return Wait(job, "host", text, reverse("hosts"))
    return None


def _for_its_pool(job: Job, pool: Pool) -> Wait:
    text = gettext("for a host of the pool %(pool)s: none that takes new jobs has recognised its location")
    return Wait(job, "host", text % {"pool": pool.name}, reverse("hosts"))


def workers_of(host: Host) -> Workers:
    """Return the workers of a host: those of this machine, or what another one has reported."""
    if is_here(host.pk):
        return ask(ReadWorkers())
    return Workers(is_up=not is_away(host.pk), slots=host.slots)


def _for_space(job: Job, known: SharedReasons) -> Wait | None:
    host = job.runs_on
    fault = folder_fault() if known.is_here(host) else host.fault
    if fault is None:
        return None
    text = gettext("for the folder %(path)s, which cannot be written")
    if fault.code == "host.disk_full":
        text = gettext("for space on the disk of %(path)s: hardly any is left. Free some")
    return Wait(job, "disk", text % fault.values)


def _for_a_limit(job: Job, known: SharedReasons) -> Wait | None:
    shared = job.sweep_id, job.project_id, job.requester_key, job.kind
    limit = known.of(lambda: reached_shared_limit(job), "limit", *shared)
    return None if limit is None else Wait(job, "limit", reached_limit_text(limit), _url_of(limit, job))


def reached_limit_text(limit: Limit) -> str:
    """Return a sentence about the reached limit and its end."""
    if limit.whose == "team":
        return gettext("for a quota: %(quota)s") % {"quota": translate(quota_message(limit)).rstrip(".")}
    text = {
        "sweep": gettext("for a limit: the sweep's limit of %(amount)s is reached"),
        "project": gettext("for a limit: the project's daily limit of %(amount)s is reached until %(until)s"),
        "day": gettext("for a limit: the daily limit of %(amount)s for all jobs is reached until %(until)s"),
    }
    until = short_moment(midnight(days=1))
    return text[limit.whose] % {"amount": amount(limit.measure, limit.max_amount), "until": until}


def _for_the_cache(job: Job, known: SharedReasons) -> Wait | None:
    if (sweep := job.sweep) is None or job.kind == Job.Kind.SCORE:
        return None
    first = known.of(lambda: warming_branch(sweep), "cache", sweep.pk)
    if first is None or first.pk == job.pk:
        return None
    text = gettext("for the first variation, which warms the prompt cache for all of them")
    return Wait(job, "cache", text, sweep.get_absolute_url())


def _url_of(limit: Limit, job: Job) -> str:
    if limit.whose == "sweep" and job.sweep:
        return job.sweep.get_absolute_url()
    if limit.whose == "project":
        return f"{reverse('project', args=[job.location.uid])}#limits"
    return f"{reverse('jobs')}?show=limits#day-limits" if limit.whose == "day" else ""


def _for_a_slot(job: Job, known: SharedReasons) -> Wait:
    hosts = known.hosts_that_may_start(job) or [job.runs_on]
    workers = [known.workers_of(host) for host in hosts]
    if not any(one.is_up for one in workers):
        return Wait(job, "worker", gettext("for a worker: none is running"))
    busy = known.of(Job.objects.under_way().filter(host__in=hosts).count, "busy", *hosts)
    slots = sum(one.slots for one in workers)
    if slots and busy >= slots:
        text = gettext("for a free slot: %(busy)d of %(slots)d busy")
        return Wait(job, "slot", text % {"busy": min(busy, slots), "slots": slots})
    return Wait(job, "moment", gettext("a moment: it is about to start"))


# Sentences about a job, for its bar, its page and its row.


Status = Job.Status

FORKS: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to fork to {branch}"),
    Status.STARTING: _("Starting the fork to {branch}"),
    Status.RUNNING: _("Forking to {branch}"),
    Status.SUCCEEDED: _("Forked to {branch}"),
    Status.FAILED: _("The fork to {branch} failed"),
    Status.CANCELLED: _("The fork to {branch} was cancelled"),
    Status.INTERRUPTED: _("The fork to {branch} was interrupted"),
}
RESUMES: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to resume {branch}"),
    Status.STARTING: _("Starting to resume {branch}"),
    Status.RUNNING: _("Resuming {branch}"),
    Status.SUCCEEDED: _("Resumed and completed {branch}"),
    Status.FAILED: _("Resuming {branch} failed"),
    Status.CANCELLED: _("Resuming {branch} was cancelled"),
    Status.INTERRUPTED: _("Resuming {branch} was interrupted"),
}
RUNS: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to start {name}"),
    Status.STARTING: _("Starting {name}"),
    Status.RUNNING: _("Running {name}"),
    Status.SUCCEEDED: _("Completed {name}"),
    Status.FAILED: _("The run of {name} failed"),
    Status.CANCELLED: _("The run of {name} was cancelled"),
    Status.INTERRUPTED: _("The run of {name} was interrupted"),
}
PUBLICATIONS: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to publish {branch}"),
    Status.STARTING: _("Starting to publish {branch}"),
    Status.RUNNING: _("Publishing {branch}"),
    Status.SUCCEEDED: _("Published {branch}"),
    Status.FAILED: _("Publishing {branch} failed"),
    Status.CANCELLED: _("Publishing {branch} was cancelled"),
    Status.INTERRUPTED: _("Publishing {branch} was interrupted"),
}
SCORES: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to score {branch}"),
    Status.STARTING: _("Starting to score {branch}"),
    Status.RUNNING: _("Scoring {branch}"),
    Status.SUCCEEDED: _("Scored {branch}"),
    Status.FAILED: _("Scoring {branch} failed"),
    Status.CANCELLED: _("Scoring {branch} was cancelled"),
    Status.INTERRUPTED: _("Scoring {branch} was interrupted"),
}
REPLAYS: dict[str, str | Promise] = {
    Status.QUEUED: _("Waiting to replay a model call of {branch}"),
    Status.STARTING: _("Starting to replay a model call of {branch}"),
    Status.RUNNING: _("Replaying a model call of {branch}"),
    Status.SUCCEEDED: _("Replayed a model call of {branch}"),
    Status.FAILED: _("Replaying a model call of {branch} failed"),
    Status.CANCELLED: _("Replaying a model call of {branch} was cancelled"),
    Status.INTERRUPTED: _("Replaying a model call of {branch} was interrupted"),
}
SENTENCES = {
    Job.Kind.FORK: FORKS,
    Job.Kind.RESUME: RESUMES,
    Job.Kind.RUN: RUNS,
    Job.Kind.PUBLISH: PUBLICATIONS,
    Job.Kind.SCORE: SCORES,
    Job.Kind.REPLAY: REPLAYS,
}
STOPPED: dict[str, str | Promise] = {
    Job.Kind.FORK: _("The fork to {branch} stopped at a limit"),
    Job.Kind.RESUME: _("Resuming {branch} stopped at a limit"),
    Job.Kind.RUN: _("The run of {name} stopped at a limit"),
    Job.Kind.PUBLISH: _("Publishing {branch} stopped at a limit"),
    Job.Kind.SCORE: _("Scoring {branch} stopped at a limit"),
    Job.Kind.REPLAY: _("Replaying a model call of {branch} stopped at a limit"),
}
AT_BREAKPOINT: dict[str, str | Promise] = {
    Job.Kind.FORK: _("The fork to {branch} is waiting at a breakpoint"),
    Job.Kind.RESUME: _("{branch} is waiting at a breakpoint"),
    Job.Kind.RUN: _("The run of {name} is waiting at a breakpoint"),
}
ASKING: dict[str, str | Promise] = {
    Job.Kind.FORK: _("The fork to {branch} is waiting for an answer"),
    Job.Kind.RESUME: _("Resuming {branch} is waiting for an answer"),
    Job.Kind.RUN: _("The run of {name} is waiting for an answer"),
    Job.Kind.PUBLISH: _("Publishing {branch} is waiting for an answer"),
    Job.Kind.SCORE: _("Scoring {branch} is waiting for an answer"),
    Job.Kind.REPLAY: _("Replaying a model call of {branch} is waiting for an answer"),
}
INCOMPLETE: dict[str, str | Promise] = {
    Job.Kind.FORK: _("Forked to {branch}, but checkpoints are missing"),
    Job.Kind.RESUME: _("Resumed and completed {branch}, but checkpoints are missing"),
    Job.Kind.RUN: _("Completed {name}, but checkpoints are missing"),
    Job.Kind.PUBLISH: _("Published {branch}, but checkpoints are missing"),
    Job.Kind.SCORE: _("Scored {branch}, but checkpoints are missing"),
    Job.Kind.REPLAY: _("Replayed a model call of {branch}, but checkpoints are missing"),
}
# What happens next, or what a person can do.
HINTS: dict[str, str | Promise] = {
    Status.STARTING: _("Loading the project's environment. This takes a few seconds."),
    Status.CANCELLED: _("Its checkpoints are kept."),
    Status.INTERRUPTED: _("It may have called models. It is not restarted automatically."),
}


def sentence(job: Job) -> SafeString:
    """Return a sentence about the job with the name of its branch or run emphasised."""
    is_run = job.kind == Job.Kind.RUN
    text = SENTENCES[Job.Kind(job.kind)][job.status]
    if job.is_stopped and job.has_ended:
        text = STOPPED[job.kind]
    elif job.is_incomplete:
        text = INCOMPLETE[job.kind]
    elif job.is_at_breakpoint:
        text = AT_BREAKPOINT[job.kind]
    elif is_stalled(job):
        text = _("{branch} is stalled: its host does not answer")
    elif job.is_waiting_for_an_answer and not job.is_being_cancelled:
        text = ASKING[job.kind]
    requested_name = job.request.get("name") or job.request.get("entry_point")
    name = format_html("<strong>{}</strong>", (requested_name if is_run else job.branch) or _("the run"))
    return format_html(str(text), name=name, branch=name)


def attempt_label(job: Job) -> str:
    """Return a label for an attempt that wrote no checkpoint: ``fork failed``."""
    kind = {"fork": _("fork"), "resume": _("resume")}.get(job.kind, _("new run"))
    return f"{kind} {status_label(job)}"


def hint(job: Job) -> str:
    """Return what the job waits for, or what a person can do next; empty if neither applies."""
    if is_stalled(job):
        text = _("It was started on %(host)s. It may run there still, so nothing starts it again.")
        return str(text) % {"host": away_text(job.runs_on)}
    if job.is_being_cancelled:
        return str(_("Cancelling. The run is asked to stop, and killed if it does not."))
    if job.is_stopped:
        kept = HINTS[Status.CANCELLED] if job.has_ended else _("It is being asked to stop.")
        return f"{limit_label(job)} {kept}"
    if job.is_at_breakpoint:
        return str(_("Next: %(units)s. Resume it to go on.")) % {"units": ", ".join(job.stopped_before)}
    wait = wait_of(job)
    if wait:
        return str(_("Waiting %(for_what)s.")) % {"for_what": wait.text.rstrip(".")}
    return str(HINTS.get(job.status, ""))


def status_label(job: Job) -> str:
    """Return the status in a word or two."""
    if job.is_stopped:
        return str(_("stopped at a limit") if job.has_ended else _("stopping"))
    if job.is_incomplete:
        return str(_("checkpoints missing"))
    if is_stalled(job):
        return str(_("stalled"))
    if job.is_at_breakpoint:
        return str(_("waiting at a breakpoint"))
    if job.is_waiting_for_an_answer and not job.is_being_cancelled:
        return str(_("waiting for an answer"))
    return str(job.get_status_display())


def status_class(job: Job) -> str:
    """Return the CSS class suffix of the status."""
    if is_stalled(job):
        return str(Status.INTERRUPTED)
    if job.is_waiting_for_an_answer or job.is_at_breakpoint:
        return "asking"
    return str(Status.INTERRUPTED if job.is_incomplete else job.status)


def waiting_since(job: Job) -> datetime | None:
    """Return when the job began to wait for an answer; None if it does not wait."""
    if not job.is_waiting_for_an_answer:
        return None
    return job.questions.waiting().order_by("asked_at").values_list("asked_at", flat=True).first()


def waited(job: Job) -> str:
    """Return how long the job has waited for the current answer, such as ``14 s``."""
    since = waiting_since(job)
    return duration(int((timezone.now() - since).total_seconds())) if since else ""


def lateness(job: Job) -> str:
    """Return how late the job started and why; empty if it was on time."""
    if job.start_at is None or job.started_at is None:
        return ""
    minutes = int((job.started_at - job.start_at).total_seconds() // 60)
    if minutes < 1:
        return ""
    due = job.became_due_at or job.started_at
    worker_was_down = (due - job.start_at).total_seconds() >= 60
    why = _("no worker was running") if worker_was_down else _("it waited for a free slot or a limit")
    late = ngettext("%(count)d minute late: %(why)s", "%(count)d minutes late: %(why)s", minutes)
    return late % {"count": minutes, "why": why}


def elapsed(job: Job) -> str:
    """Return how long the job has run, such as ``1 h 2 min``; empty if it has not started."""
    if job.started_at is None:
        return ""
    return duration(max(int(((job.ended_at or timezone.now()) - job.started_at).total_seconds()), 0))
