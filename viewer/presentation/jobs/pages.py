"""The table of jobs, and the page of one job."""

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.paginator import Paginator
from django.db.models import DurationField, Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce, Lower, Now
from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from viewer.engines import engine_of
from viewer.engines.plan import Reason
from viewer.engines.recorded_calls import ModelChoice, Reproduction
from viewer.formats import count_text
from viewer.launching.calls import model_choice_of
from viewer.launching.options import CODE, RECORDED
from viewer.launching.requests import edits_not_kept, edits_to_repeat, models_to_repeat
from viewer.models import Checkpoint, Job, Question, uuid_of
from viewer.presentation.jobs.events import EventList, Progress, add_events, advance, halt, progress_of
from viewer.presentation.jobs.status import usage_label
from viewer.presentation.listing import Column, Listing, Statuses, choices, filter_in, headings, order_of
from viewer.records.limits import limits_in, seconds_of
from viewer.stores.protocol import count_of

# The table of jobs. The address of the page holds its filter, order and page number.


JOBS_A_PAGE = 50
NEWEST_FIRST = "-requested"
# ``waiting`` jobs wait for a person, not for their start.
STATUSES: Statuses = {
    "": _("All"),
    "waiting": _("Waiting"),
    "queued": _("Queued"),
    "running": _("Running"),
    "failed": _("Failed"),
    "completed": _("Completed"),
    "cancelled": _("Cancelled"),
}
_DURATION = ExpressionWrapper(Coalesce("ended_at", Now()) - F("started_at"), output_field=DurationField())
COLUMNS = (
    Column("job", _("Job"), Lower("branch"), starts_high=False, is_number=False),
    Column("status", _("Status"), "status", starts_high=False, is_number=False),
    Column("run", _("Run"), Lower(Coalesce("run__name", "run__key")), starts_high=False, is_number=False),
    Column("person", _("Requested by"), "requested_by__username", starts_high=False, is_number=False),
    Column("requested", _("Requested"), "created_at"),
    Column("duration", _("Duration"), _DURATION),
    Column("tokens", _("Tokens"), "tokens"),
    Column("cost", _("Cost"), "cost"),
)


def job_list(address: QueryDict) -> Listing[Job]:
    """Return the page of jobs for an address. ``asks`` of a job says whether it waits for an answer."""
    wanted = filter_in(address, STATUSES, COLUMNS, NEWEST_FIRST)
    jobs = Job.objects.select_related(
        "run", "host", "location__host", "location__pool", "requested_by"
    ).annotate(asks=_asks())
    found = _with_status(_matching(jobs, wanted.query), wanted.only)
    found = found.order_by(order_of(COLUMNS, wanted.sort), "-created_at", "-pk")
    return Listing(
        page=Paginator(found, JOBS_A_PAGE).get_page(address.get("page")),
        filter=wanted,
        headings=headings(COLUMNS, wanted.sort, address),
        choices=choices(STATUSES, wanted.only, address),
    )


def _asks() -> Exists:
    """Return the condition for jobs that wait for an answer."""
    return Exists(Question.objects.waiting().filter(job=OuterRef("pk")))


def _matching(jobs: QuerySet[Job], query: str) -> QuerySet[Job]:
    """Return the jobs whose branch, run, entry point, person or ID matches."""
    if not query:
        return jobs
    fields = ("branch", "variation", "run__name", "run__key", "requested_by__username", "request__name")
    found = Q(*((f"{field}__icontains", query) for field in fields), _connector=Q.OR)
    uid = uuid_of(query)
    return jobs.filter(found | Q(pk=uid) if uid else found)


def _with_status(jobs: QuerySet[Job], only: str) -> QuerySet[Job]:
    match only:
        case "waiting":
            at_breakpoint = Q(status__in=Job.ENDED) & ~Q(stopped_before=[])
            return jobs.filter(Q(_asks()) | at_breakpoint)
        case "queued" | "cancelled":
            return jobs.filter(status=only)
        case "running":
            return jobs.filter(~_asks(), status__in=(Job.Status.STARTING, Job.Status.RUNNING))
        case "failed":
            return jobs.filter(status__in=(Job.Status.FAILED, Job.Status.INTERRUPTED))
        case "completed":
            return jobs.filter(status=Job.Status.SUCCEEDED, stopped_before=[])
    return jobs


# The pages of a job: its progress, its events and its next steps.


@dataclass(frozen=True, slots=True)
class ShownJob:
    """A job with its progress. ``event_list`` has all rows."""

    job: Job
    progress: Progress
    event_list: EventList


def shown_job(job: Job) -> ShownJob:
    """Return the job with the progress computed from its events."""
    progress, event_list = progress_of(job.plan), EventList()
    for event in job.events.iterator(chunk_size=1000):
        advance(progress, event.seq, event.kind, event.data)
        add_events(event_list, [event])
    if job.has_ended:
        halt(progress, job.status)
    return ShownJob(job, progress, event_list)


@dataclass(frozen=True, slots=True)
class NextStep:
    """A link to continue a job that did not succeed, or that is at a breakpoint."""

    url: str
    text: str


def next_step(job: Job) -> NextStep | None:
    """Return a link that resumes the job from its last checkpoint.

    None if nothing is left to do or it wrote no checkpoint.
    """
    if not job.has_ended or (job.status == Job.Status.SUCCEEDED and not job.stopped_before):
        return None
    written = job.events.filter(kind="checkpoint").order_by("-seq").values_list("data__id", flat=True)[:1]
    last = Checkpoint.objects.filter(location=job.location, checkpoint_id__in=list(written)).first()
    if last:
        words = (
            gettext("Resume from the breakpoint")
            if job.stopped_before
            else gettext("Resume from its last checkpoint")
        )
        return NextStep(reverse("resume", args=[last.pk]), words)
    return None


def retry_url(job: Job) -> str:
    """Return the address of the job's form with its values; empty if it succeeded or cannot be repeated."""
    if not job.has_ended or job.status == Job.Status.SUCCEEDED or job.kind == Job.Kind.SCORE:
        return ""
    if job.kind == Job.Kind.RUN:
        address = reverse("new-run", args=[job.location.uid])
    elif job.checkpoint is None or (job.kind == Job.Kind.REPLAY and not job.replayed_call):
        return ""
    elif job.kind == Job.Kind.REPLAY:
        address = reverse("replay", args=[job.checkpoint.pk, job.replayed_call])
    else:
        address = reverse(job.kind, args=[job.checkpoint.pk])
    return f"{address}?retry={job.pk}"


def limits_shown(job: Job) -> list[str]:
    """Return a sentence for each of the job's own limits, with its usage."""
    waits = [
        (one.asked_at, one.answered_at or one.withdrawn_at) for one in job.questions.order_by("asked_at")
    ]
    used = {"tokens": job.tokens, "steps": job.steps_used, "seconds": seconds_of(job, waits)}
    return [usage_label(one, used[one.measure]) for one in limits_in("job", job.limits)]


def branch_url(job: Job) -> str:
    """Return the address of the newest checkpoint of the job's branch; empty if there is none."""
    if job.run is None:
        return ""
    newest = (
        job.run.checkpoints.filter(recorded_branch=job.branch).select_related("run").order_by("-row").first()
    )
    return newest.get_absolute_url() if newest else ""


def start_url(job: Job) -> str:
    """Return the address of the checkpoint that the job started from; empty if it is gone."""
    return job.checkpoint.get_absolute_url() if job.checkpoint else ""


@dataclass(frozen=True, slots=True)
class Published:
    """What a job has written to a thread. ``url`` is empty if the thread is not listed."""

    text: str
    url: str


def published(job: Job) -> Published | None:
    """Return what the job published last; None if it published nothing."""
    event = job.events.filter(kind="published").order_by("-seq").first()
    if event is None:
        return None
    count, thread = count_of(event.data.get("checkpoints")), str(event.data.get("thread"))
    text = ngettext(
        "%(count)s checkpoint written to %(thread)s.", "%(count)s checkpoints written to %(thread)s.", count
    )
    if not count:
        text = gettext("%(thread)s has all of these checkpoints already.")
    run = job.location.runs.filter(key=thread, parent=None).first()
    return Published(
        text % {"count": count_text(count), "thread": thread}, run.get_absolute_url() if run else ""
    )


COMMAND = "forkline"


def reproduction_of(job: Job) -> Reproduction | None:
    """The job without its secrets; None if its checkpoint was removed or nothing can repeat it."""
    checkpoint = job.checkpoint
    if job.kind not in (Job.Kind.FORK, Job.Kind.RESUME, Job.Kind.RUN):
        return None
    if checkpoint is None and job.kind != Job.Kind.RUN:
        return None
    kept, options = edits_to_repeat(job), job.request.get("options") or {}
    return Reproduction(
        kind=str(job.kind),
        entity=str(job.request.get("entity") or (checkpoint.entity if checkpoint else "")),
        folder=job.project.folder if job.project else str(Path(job.location.path).parent),
        entry_point=str(job.request.get("entry_point") or ""),
        location=job.location.path,
        store_kind=job.location.store_kind,
        source=checkpoint.source if checkpoint else "",
        run_key=checkpoint.run.key if checkpoint else str(options.get("thread") or ""),
        checkpoint_id=checkpoint.checkpoint_id if checkpoint else "",
        branch=job.branch,
        inputs=kept["inputs"],
        outputs={
            unit: edit["json"] if "json" in edit else edit.get("text", "")
            for unit, edit in kept["outputs"].items()
        },
        state=kept["state"],
        again=tuple(step["unit"] for step in job.plan if step.get("action") == "again"),
        starts_over=any(step.get("reason") == Reason.STARTS_OVER for step in job.plan),
        answers=kept["answers"],
        settings={name: kept[name] for name in ("configurable", "context") if kept[name]},
        as_node=str(options.get("as_node") or ""),
        replace=tuple(options.get("replace") or ()),
        missing=tuple(edits_not_kept(job)),
    )


def script_of(job: Job, what: Reproduction) -> str:
    """A Python script that repeats the job with its engine's own interface."""
    return str(engine_of(job.location).script(what))


def command_of(job: Job, what: Reproduction) -> str:
    """The ``forkline`` command that repeats the job, on one line.

    It names no branch: a fork gets a new one, since the name that the job had is taken.
    """
    target = what.location if job.checkpoint is None else job.checkpoint.target
    words = [COMMAND, what.kind, target, *_edits(what), *_choices(job), *_place(job)]
    return shlex.join(words)


def _edits(what: Reproduction) -> Iterator[str]:
    for name, value in what.inputs.items():
        yield from ("--input", f"{name}={_json(value)}")
    for unit, value in what.outputs.items():
        text = value if isinstance(value, str) else _json(value)
        # Without it, the command would read the file that such an output names, and send it.
        yield from ("--output", f"{unit}={'@' * text.startswith('@')}{text}")
    if what.state:
        yield from ("--state", _json(dict(what.state)))
    if what.as_node:
        yield from ("--as-node", what.as_node)
    for name in what.replace:
        yield from ("--replace", name)
    for group, values in what.settings.items():
        for name, value in values.items():
            yield from (f"--{group}", f"{name}={_json(value)}")
    for name, value in what.answers.items():
        yield from ("--answer", f"{name}={_json(value)}" if name else _json(value))


def _choices(job: Job) -> Iterator[str]:
    """The options of steps, models, tools, breakpoints and the thread."""
    options: Mapping[str, Any] = job.request.get("options") or {}
    for option, reason in (("--again", Reason.REQUESTED), ("--keep", Reason.HELD)):
        for step in job.plan:
            if step.get("reason") == reason:
                yield from (option, str(step["unit"]))
    for role, model in models_to_repeat(job).items():
        yield from ("--model", model if role == "*" else f"{role}={model}")
    yield from _calls(options)
    for name, nodes in (("--stop-before", "stop_before"), ("--stop-after", "stop_after")):
        for node in options.get(nodes) or ():
            yield from (name, str(node))
    if job.kind == Job.Kind.RUN and options.get("thread"):
        yield from ("--thread", str(options["thread"]))


def _calls(options: Mapping[str, Any]) -> Iterator[str]:
    """What happens when it calls tools and models."""
    tools = options.get("tools") or {}
    for tool, choice in (tools.get("choices") or {}).items():
        yield from ("--tool", f"{tool}={choice}")
    if tools.get("dry_run"):
        yield "--dry-run"
    if (calls := model_choice_of(options)) != ModelChoice.CALL:
        yield from ("--model-calls", calls.value)


def _place(job: Job) -> Iterator[str]:
    """The location of another host, or the project."""
    if job.is_on_other_host:
        yield from ("--on", f"{job.location.host.name}:{job.location.path}")
    elif job.project:
        yield from ("--project", job.project.folder)
        if job.project.interpreter:
            yield from ("--python", job.project.interpreter)
    if entry_point := job.request.get("entry_point"):
        yield from ("--entrypoint", str(entry_point))
    if job.commit:
        yield from (f"--{CODE.name}", RECORDED)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
