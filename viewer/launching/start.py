"""Starts a previewed fork or resume, once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.plan import plain_steps
from viewer.engines.protocol import kind_of
from viewer.host.jobs.environment import JobRefused
from viewer.host.jobs.preflight import unaccepted_effects
from viewer.host.jobs.request import Options, Request
from viewer.host.jobs.runner_requests import request_for
from viewer.launching.enqueue import BranchTaken, start_job
from viewer.launching.findings import Effects, effects_refusal
from viewer.launching.preview import LaunchPreview, ask_next, preview_launch
from viewer.launching.refusals import (
    AlreadyStarted,
    Code,
    LaunchRefused,
    Refusal,
    branch_refusals,
    plan_changed,
)
from viewer.launching.requests import (
    ACCEPT_ALL,
    CheckpointRequest,
    ForkRequest,
    LaunchRequest,
    PublishRequest,
    ResumeRequest,
    is_same_request,
)
from viewer.messages.message import UserMessage
from viewer.messages.translation import translate
from viewer.models import Job, accept_effects

# Starts a previewed fork or resume, once.


class EffectsRefused(LaunchRefused):
    """The checkpoint has ``effects`` that nobody has accepted for the project."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        super().__init__([effects_refusal()])


def start(preview: LaunchPreview, last_check: Callable[[], None] = lambda: None) -> Job:
    """Store and return the queued job, or the earlier job with the same key. Raises LaunchRefused.

    ``last_check`` may raise it as well, once the effects are accepted.
    """
    request = preview.request
    job_request = request_for(
        request.checkpoint,
        request.kind,
        request.branch,
        request.edits,
        preview.plan.steps,
        request.entry_point,
        options_of(request, preview),
        request.settings,
    )
    if earlier := earlier_job(request, job_request):
        return earlier
    if request.seen_plan not in (None, preview.plan_digest):
        raise plan_changed()
    if preview.refusals:
        raise LaunchRefused(preview.refusals)
    check_effects(request)
    last_check()
    return queued(request, request.kind, job_request, plain_steps(preview.plan.steps))


def earlier_job(request: LaunchRequest, job_request: Request) -> Job | None:
    """The job that this request has started before; None if it has not. Raises AlreadyStarted."""
    earlier = Job.objects.filter(idempotency_key=request.key).first()
    if earlier and not is_same_request(earlier, job_request, request.options):
        raise AlreadyStarted
    return earlier


def queued(
    request: ForkRequest | PublishRequest,
    kind: Job.Kind,
    job_request: Request,
    plan: Sequence[Mapping[str, Any]],
) -> Job:
    """Store and return the job of a request from a checkpoint. Raises LaunchRefused."""
    try:
        return start_job(
            request.checkpoint,
            request.project,
            kind,
            job_request["branch"],
            job_request,
            plan,
            requested_by=request.requested_by,
            idempotency_key=request.key,
            options=request.options,
        )
    except JobRefused as refused:
        raise LaunchRefused([refusal_of(refused, kind)]) from refused


def options_of(request: LaunchRequest, preview: LaunchPreview) -> Options:
    """The options that the runner reads, including accepted losses and answers."""
    options = request.run_options
    if preview.findings:
        options.update(preview.findings.options)
    else:
        options.update(unchecked_options(request))
    return options


def unchecked_options(request: LaunchRequest) -> Options:
    """Accepted losses and answers without a preflight check. The runner refuses whatever is missing."""
    options = Options(accepted=[ACCEPT_ALL] if request.accepted.losses == ACCEPT_ALL else [])
    if request.answers:
        options["matches"] = dict(request.answers)
    return options


def check_effects(request: CheckpointRequest) -> None:
    """Find the checkpoint's effects unless a check has. Raises LaunchRefused for unaccepted ones."""
    if request.preflight or request.project is None:
        return
    try:
        effects = unaccepted_effects(request.checkpoint, request.project, request.entry_point)
    except JobRefused as refused:
        raise LaunchRefused([Refusal(Code.START, translate(refused))]) from refused
    if effects and not request.accepted.effects:
        raise EffectsRefused(effects)
    if effects:
        accept_effects(request.project, effects, request.requested_by)


def refusal_of(refused: JobRefused, kind: Job.Kind) -> Refusal:
    """The refusal of a job that could not be stored."""
    if isinstance(refused, BranchTaken) and kind == Job.Kind.FORK:
        return Refusal(Code.BRANCH, translate(refused), "branch")
    return Refusal(Code.START, translate(refused))


# Forks a checkpoint: continues from it on a new branch, with a person's edits.


def preview_fork(request: ForkRequest) -> LaunchPreview:
    """The plan of the fork, the reasons why it cannot start, and its warnings."""
    preview = preview_launch(request)
    preview.checks += branch_refusals(request.branch, request.checkpoint.location.taken_branches)
    return preview


def fork(request: ForkRequest) -> Job:
    """Queue the fork, once per request key. Raises LaunchRefused."""
    preview = preview_fork(request)
    return start(preview, lambda: _refuse_without_next(preview))


def _refuse_without_next(preview: LaunchPreview) -> None:
    """Ask the project's code what runs, if the checkpoint does not show it. Raises LaunchRefused for nothing.

    An error is left to the run, which has the project's keys, and checks again.
    """
    request = preview.request
    edits, kind = request.edits, kind_of(engine_of(request.contents), request.contents.kind)
    if preview.plan.steps or not kind.adds_to_state or not (edits.state or edits.as_node):
        return
    asked = [one for one in ask_next(request).units if one.unit == edits.as_node]
    if asked and not asked[0].error and not asked[0].following:
        raise LaunchRefused([Refusal(Code.PLAN, translate(UserMessage("langgraph.nothing_follows")))])


# Resumes a checkpoint: continues from it on its own branch.


def preview_resume(request: ResumeRequest) -> LaunchPreview:
    """The plan of the resume, the reasons why it cannot start, and its warnings."""
    preview = preview_launch(request)
    checkpoint, kind = request.checkpoint, kind_of(engine_of(request.contents), request.contents.kind)
    if kind.resumes_last_only and not checkpoint.is_last:
        message = _("Only the last checkpoint of a thread can be resumed. Fork this one instead.")
        preview.checks.append(Refusal(Code.CHECKPOINT, message))
    return preview


def resume(request: ResumeRequest) -> Job:
    """Queue the resume, once per request key. Raises LaunchRefused, for example if nothing is left to run."""
    return start(preview_resume(request))
