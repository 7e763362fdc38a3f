"""Starts forks, resumes and publications: stores each job once, and enqueues it.

What people decide about a stored job is here as well: its start time, its end, and answers to its questions.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID, uuid4

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from viewer.data_folder.database_file import clear_log
from viewer.data_folder.locks import exclusive_transaction
from viewer.engines import engine_of
from viewer.engines.answer_schema import AnswerInvalid, as_text, parse_answer
from viewer.engines.entry_points import RootKind
from viewer.engines.plan import plain_steps
from viewer.engines.protocol import kind_of
from viewer.engines.runner_protocol import Request
from viewer.host_requests import CheckProject, DeliverAnswer, JobRefused, ListNewEffects, Redact, ask
from viewer.launching import refusals, requests
from viewer.launching.calls import new_choices
from viewer.launching.options import PUBLISH_INTO, SCRATCH
from viewer.launching.preview import LaunchPreview, ask_next
from viewer.messages.message import UserMessage
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Job, Location, Project, Question, Run, accept_effects
from viewer.records.audit import Action, Audited, record
from viewer.records.bodies import stored_contents
from viewer.records.hosts import claimants, enqueue
from viewer.records.limits import RUNS, quota_refusal
from viewer.records.lineage.tree import free_name
from viewer.records.locations import publications_of
from viewer.records.permissions import may_start
from viewer.records.runner_requests import ACCEPTED, REPEATABLE_EDITS, request_for, request_for_publication
from viewer.redaction import MARKER

# Reserves a branch for a job. Called in the transaction that stores the job's row.


# The name of the transactions in which jobs are stored.
BRANCHES = "branches"


class BranchTaken(JobRefused):
    """Another job or checkpoint has the branch. Nothing was started."""


def refuse_taken(kind: str, location: Location, run: Run | None, branch: str) -> None:
    """Check that no other unfinished job writes to this branch, and that a fork's branch is new.

    Requires ``exclusive_transaction(BRANCHES)``, so that no other process stores a job between this check and
    the insert of the row. Raises BranchTaken.
    """
    if kind == Job.Kind.FORK and branch in location.taken_branches:
        raise BranchTaken("branch.exists", name=branch)
    if kind == Job.Kind.RESUME and Job.objects.unfinished().filter(run=run, branch=branch).exists():
        raise BranchTaken("branch.in_use", name=branch)


def refuse_over_quota(
    requested_by: AbstractBaseUser | None, kinds: Sequence[str], start_at: datetime | None
) -> None:
    """Raise JobRefused if a quota of the person's teams does not allow jobs of these kinds.

    Requires ``exclusive_transaction(BRANCHES)``, as ``refuse_taken`` does.
    """
    runs = sum(kind in RUNS for kind in kinds)
    if requested_by and (reason := quota_refusal(requested_by.pk, runs, start_at)):
        raise JobRefused(reason)


def check_project(project: Project | None, options: requests.LaunchOptions) -> None:
    """Raise JobRefused if the project cannot run. A host that is away checks it when it is back."""
    if not (options.waits_for_host and project and project.away_host):
        ask(CheckProject(project.pk if project else None))


# Stores a job, once, and enqueues it.


NO_OPTIONS = requests.LaunchOptions()


def start_job(
    checkpoint: Checkpoint,
    project: Project | None,
    kind: Job.Kind,
    branch: str,
    request: Mapping[str, Any],
    plan: Sequence[Mapping[str, Any]],
    requested_by: AbstractBaseUser | None = None,
    idempotency_key: UUID | None = None,
    options: requests.LaunchOptions = NO_OPTIONS,
) -> Job:
    """The queued job, enqueued once it is committed, or at its start time.

    Returns the job that an earlier call stored with the same key, if any. The run writes to ``branch``.
    Raises JobRefused if the project cannot run, and BranchTaken if another job writes to the branch.
    """
    values = {
        "kind": kind,
        "location": checkpoint.location,
        "run": checkpoint.run,
        "checkpoint": checkpoint,
        "requested_by": requested_by,
        "branch": branch,
        "request": dict(request),
        "plan": [dict(step) for step in plan],
    }
    return _queued(values, project, idempotency_key or uuid4(), options)


def start_run(
    location: Location,
    project: Project | None,
    request: Mapping[str, Any],
    requested_by: AbstractBaseUser | None = None,
    idempotency_key: UUID | None = None,
    options: requests.LaunchOptions = NO_OPTIONS,
) -> Job:
    """The queued job of a new run that writes to this location, as ``start_job`` returns it.

    ``job.run`` is None until the first checkpoint is imported. Raises JobRefused if the project cannot run.
    """
    values = {
        "kind": Job.Kind.RUN,
        "location": location,
        "requested_by": requested_by,
        "branch": request["branch"],
        "request": dict(request),
    }
    return _queued(values, project, idempotency_key or uuid4(), options)


def _queued(
    values: Mapping[str, Any], project: Project | None, key: UUID, options: requests.LaunchOptions
) -> Job:
    """The job with this key. It is stored and enqueued if it does not exist."""
    if existing := Job.objects.filter(idempotency_key=key).first():
        return existing
    check_project(project, options)
    agreed = {
        "project": project,
        "start_at": options.start_at,
        "limits": dict(options.limits),
        "request_digest": requests.request_digest(values["request"], options),
        **claimants(values["location"], values.get("checkpoint")),
    }
    # Asks the project's host, so before others have to wait.
    kept = {REPEATABLE_EDITS: requests.kept_edits(values["request"], project)}
    with exclusive_transaction(BRANCHES):
        if existing := Job.objects.filter(idempotency_key=key).first():
            return existing
        refuse_taken(values["kind"], values["location"], values.get("run"), values["branch"])
        refuse_over_quota(values.get("requested_by"), [values["kind"]], options.start_at)
        stored = {**values, "request": {**values["request"], **kept}}
        job = Job.objects.create(idempotency_key=key, **stored, **agreed)
        record(Action.STARTED, Audited.JOB, job.pk, job.kind)
        transaction.on_commit(lambda: enqueue(job))
    return job


def move_start(job: Job, start_at: datetime | None) -> bool:
    """Change the start time of a queued job; None means now. False if the job is no longer queued."""
    with transaction.atomic():
        moved = job.move_start(start_at)
        if moved:
            record(Action.CHANGED, Audited.JOB, job.pk, "start time")
    if moved:
        enqueue(job)
    return moved


def continue_job(job: Job, person: AbstractBaseUser) -> bool:
    """Let a job start with the rights of an admin, since who requested it has lost theirs.

    Return False if it does not wait for that.
    """
    if job.status != Job.Status.QUEUED or may_start(job):
        return False
    with transaction.atomic():
        continued = job.continue_as(person)
        if continued:
            record(Action.CHANGED, Audited.JOB, job.pk, "continued")
    if continued:
        enqueue(job)
    return continued


def request_cancel(job: Job) -> bool:
    """Cancel a queued job, or ask the follower of a running job to. Return False if the job has ended."""
    with transaction.atomic():
        requested = job.request_cancel()
        if requested:
            record(Action.CANCELLED, Audited.JOB, job.pk)
    if requested and job.has_ended:
        # The job never ran, so no follower clears the user's input from the write-ahead log.
        clear_log(attempts=1)
    return requested


# Answers the questions of runs.

# Longer answers are cut, because a model reads them.
MAX_ANSWER_CHARACTERS = 100_000


def send_answer(question: Question, text: str, person: AbstractBaseUser | None) -> bool:
    """Answer the question, so that its run continues.

    The first answer wins: returns False if it has been answered, or if its run has ended. Raises
    AnswerInvalid if the answer does not fit the schema that the question gives, or is none for a tool's call.
    """
    text = text[:MAX_ANSWER_CHARACTERS]
    if question.kind == Question.Kind.INTERRUPT:
        asked = engine_of(question.job.location).asked_question(question.prompt, question.context)
        if asked and asked.schema:
            text = as_text(parse_answer(text, asked.schema))
    if question.kind == Question.Kind.TOOL_CALL:
        text = _tool_answer(text, question)
    with transaction.atomic():
        if not question.record_answer(text, person):
            return False
        record(Action.ANSWERED, Audited.QUESTION, f"{question.job_id}/{question.number}")
    ask(DeliverAnswer(question.pk))
    return True


def redacted_answer(question: Question) -> str:
    """The answer without secrets, among them those of its project's environment file."""
    return str(ask(Redact(question.job.project_id, [question.answer]))[0])


def _tool_answer(text: str, question: Question) -> str:
    """One of the question's choices, or the arguments to call the tool with. Raises AnswerInvalid."""
    if (text := text.strip()) in question.choices:
        return text
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise AnswerInvalid("answer.tool_call", choices=", ".join(question.choices))
    if MARKER in text:
        raise AnswerInvalid("answer.hidden_argument", marker=MARKER)
    return text


# Starts a previewed fork or resume, once.


class EffectsRefused(refusals.LaunchRefused):
    """The checkpoint has ``effects`` that nobody has accepted for the project."""

    def __init__(self, effects: refusals.Effects) -> None:
        self.effects = effects
        super().__init__([refusals.effects_refusal()])


def start(preview: LaunchPreview) -> Job:
    """Queue the fork or resume, once per request key. Raises LaunchRefused."""
    request = preview.request
    job_request = request_for(
        request.checkpoint,
        request.kind,
        request.branch,
        request.edits,
        preview.plan.steps,
        request.entry_point,
        preview.options,
        request.settings,
        request.on,
    )
    if request.on:
        job_request = cast(Request, {**job_request, ACCEPTED: preview.other_host.accepted})
    if earlier := earlier_job(request, job_request):
        return earlier
    if request.seen_plan not in (None, preview.plan_digest):
        raise refusals.plan_changed()
    if preview.refusals:
        raise refusals.LaunchRefused(preview.refusals)
    if not preview.findings and not preview.away:
        check_effects(request)
    if request.kind == Job.Kind.FORK:
        _refuse_without_next(preview)
    job = queued(request, request.kind, job_request, plain_steps(preview.plan.steps))
    if request.project:
        request.project.keep_tool_choices(new_choices(preview.tools))
    return job


def earlier_job(request: requests.LaunchRequest, job_request: Request) -> Job | None:
    """The job that this request has started before; None if it has not. Raises AlreadyStarted."""
    earlier = Job.objects.filter(idempotency_key=request.key).first()
    if earlier and earlier.request_digest != requests.request_digest(job_request, request.options):
        raise refusals.AlreadyStarted
    return earlier


def queued(
    request: requests.ForkRequest | requests.PublishRequest | requests.ReplayRequest,
    kind: Job.Kind,
    job_request: Request,
    plan: Sequence[Mapping[str, Any]],
) -> Job:
    """Store and return the job of a request from a checkpoint. Raises LaunchRefused."""
    checkpoint, on = request.checkpoint, request.on if isinstance(request, requests.ForkRequest) else None
    values = {
        "kind": kind,
        "location": on or checkpoint.location,
        # A fork on another host gets its run with its first checkpoint there.
        "run": None if on else checkpoint.run,
        "checkpoint": checkpoint,
        "requested_by": request.requested_by,
        "branch": job_request["branch"],
        "request": dict(job_request),
        "plan": [dict(step) for step in plan],
    }
    try:
        return _queued(values, request.project, request.key, request.options)
    except JobRefused as refused:
        raise refusals.LaunchRefused([refusal_of(refused, kind)]) from refused


def check_effects(request: requests.CheckpointRequest) -> None:
    """Find the effects of an unchecked checkpoint. Raises LaunchRefused for unaccepted ones."""
    effects = new_effects(request)
    if effects and not request.accepted.effects:
        raise EffectsRefused(effects)
    if effects and request.project:
        accept_effects(request.project, effects, request.requested_by)


def new_effects(request: requests.CheckpointRequest) -> refusals.Effects:
    """The effects of a checkpoint that nobody has accepted for the project. Raises LaunchRefused."""
    if request.project is None:
        return ()
    asked = ListNewEffects(request.checkpoint.pk, request.project.pk, request.entry_point, request.commit)
    try:
        return ask(asked)
    except JobRefused as refused:
        raise refusals.LaunchRefused([refusals.Refusal(refusals.Code.START, refused)]) from refused


def refusal_of(refused: JobRefused, kind: Job.Kind) -> refusals.Refusal:
    """The refusal of a job that could not be stored."""
    if isinstance(refused, BranchTaken) and kind == Job.Kind.FORK:
        return refusals.Refusal(refusals.Code.BRANCH, refused, "branch")
    return refusals.Refusal(refusals.Code.START, refused)


def _refuse_without_next(preview: LaunchPreview) -> None:
    """Ask the project's code what runs, if the checkpoint does not show it. Raises LaunchRefused for nothing.

    An error is left to the run, which has the project's keys, and checks again.
    """
    request = preview.request
    edits = request.edits
    if preview.plan.steps or not (edits.state or edits.as_node):
        return
    # An engine whose states are not added to is not asked.
    units = ask_next(request).units
    asked = [one for one in units if one.unit == edits.as_node]
    if edits.as_node and units and not asked:
        message = UserMessage("langgraph.no_such_node", {"node": edits.as_node})
        raise refusals.LaunchRefused([refusals.Refusal(refusals.Code.PLAN, message)])
    if asked and not asked[0].error and not asked[0].following:
        raise refusals.LaunchRefused(
            [refusals.Refusal(refusals.Code.PLAN, UserMessage("langgraph.nothing_follows"))]
        )


NEW_THREAD, THREAD = PUBLISH_INTO.choices
MAX_THREAD_NAME = 200


@dataclass(slots=True, kw_only=True)
class PublishPreview(refusals.CheckedLaunch):
    """``count`` is the number of checkpoints, ``published`` the runs that already have them."""

    request: requests.PublishRequest
    kind: RootKind
    count: int
    published: list[str]

    @property
    def key(self) -> str:
        """The key of the run that will have the checkpoints."""
        checkpoint = self.request.checkpoint
        return checkpoint.run.key if self.request.into == THREAD else new_thread_of(self.request)


def new_thread_of(request: requests.PublishRequest) -> str:
    """The name of the new thread: the typed one, else the id of the fork's job."""
    return request.thread.strip() or request.checkpoint.scratch_job


def proposed_thread(checkpoint: Checkpoint) -> str:
    """A name for the new thread that no run of the location has: that of the branch."""
    keys = checkpoint.location.runs.filter(key__startswith=checkpoint.branch).values_list("key", flat=True)
    return free_name(checkpoint.branch, set(keys))


def preview_publish(request: requests.PublishRequest) -> PublishPreview:
    """What the publication would write, and why it cannot start."""
    checkpoint = request.checkpoint
    contents = stored_contents(checkpoint)
    kind = kind_of(engine_of(contents), contents.kind)
    rows = _rows(checkpoint)
    preview = PublishPreview(
        request=request, kind=kind, count=rows.count(), published=published_as(checkpoint)
    )
    preview.checks = refusals.project_refusals(request.project, request.options)
    if message := _refusal(checkpoint, kind, request.into) or _refused_name(request):
        preview.checks.append(refusals.Refusal(refusals.Code.PUBLISH, message))
    return preview


def _rows(checkpoint: Checkpoint) -> QuerySet[Checkpoint]:
    prefix = Checkpoint.scratch_prefix(checkpoint.scratch_job)
    return Checkpoint.objects.filter(location=checkpoint.location, source_key__startswith=prefix)


def _refusal(checkpoint: Checkpoint, kind: RootKind, into: str) -> str:
    """Why the fork of this checkpoint cannot be written there; empty if it can."""
    job = Job.objects.filter(pk=checkpoint.scratch_job).first() if checkpoint.is_scratch else None
    if not checkpoint.is_scratch or into not in dict(kind.fork_targets) or into == SCRATCH:
        return _("Only a draft, which is a fork in Forkline only, can be published.")
    if checkpoint.location.is_only_read:
        return translate(UserMessage("saver.no_runs"))
    if checkpoint.location.replaced_by:
        return _("The location was replaced after it was added, so nothing is written to it.")
    if job is not None and not job.has_ended:
        return _("The fork is still running. Publish it once it has ended.")
    first = _rows(checkpoint).filter(run=checkpoint.run).order_by("checkpoint_id").first()
    if into == THREAD and first is not None and checkpoint.run.head > first.checkpoint_id:
        return _("The thread has continued since the fork began: the fork would not become its head.")
    return ""


def _refused_name(request: requests.PublishRequest) -> str:
    """Why the new thread cannot have the typed name; empty if it can."""
    name = request.thread.strip()
    if request.into == THREAD or not name:
        return ""
    if len(name) > MAX_THREAD_NAME or not name.isprintable():
        return _("A name has at most %(most)d characters, all of which can be printed.") % {
            "most": MAX_THREAD_NAME
        }
    location = request.checkpoint.location
    if name not in published_as(request.checkpoint) and location.runs.filter(key=name).exists():
        return _("The location has %(name)s already. Choose another name.") % {"name": name}
    return ""


def published_as(checkpoint: Checkpoint) -> list[str]:
    """The keys of the runs that the fork of a scratch checkpoint was published as."""
    if not checkpoint.is_scratch:
        return []
    return sorted({str(event.data.get("thread")) for event in publications_of(checkpoint.scratch_job)})


def publish(preview: PublishPreview) -> Job:
    """Queue the publication, once per request key. Raises LaunchRefused."""
    request = preview.request
    job_request = request_for_publication(request.checkpoint, request.into, new_thread_of(request))
    if earlier := earlier_job(request, job_request):
        return earlier
    if preview.checks:
        raise refusals.LaunchRefused(preview.checks)
    return queued(request, Job.Kind.PUBLISH, job_request, [])
