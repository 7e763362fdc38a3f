"""Starts a previewed fork or resume, once."""

from collections.abc import Mapping, Sequence
from typing import Any

from viewer.engines.plan import plain_steps
from viewer.engines.runner_request import Request
from viewer.host_requests import JobRefused, ListNewEffects, ask
from viewer.launching.enqueue import BranchTaken, start_job
from viewer.launching.findings import Effects, effects_refusal
from viewer.launching.preview import LaunchPreview, ask_next
from viewer.launching.refusals import (
    AlreadyStarted,
    Code,
    LaunchRefused,
    Refusal,
    plan_changed,
)
from viewer.launching.requests import (
    CheckpointRequest,
    ForkRequest,
    LaunchRequest,
    PublishRequest,
    is_same_request,
)
from viewer.messages.message import UserMessage
from viewer.messages.translation import translate
from viewer.models import Job, accept_effects
from viewer.records.runner_requests import request_for


class EffectsRefused(LaunchRefused):
    """The checkpoint has ``effects`` that nobody has accepted for the project."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        super().__init__([effects_refusal()])


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
    )
    if earlier := earlier_job(request, job_request):
        return earlier
    if request.seen_plan not in (None, preview.plan_digest):
        raise plan_changed()
    if preview.refusals:
        raise LaunchRefused(preview.refusals)
    if not preview.findings:
        check_effects(request)
    if request.kind == Job.Kind.FORK:
        _refuse_without_next(preview)
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


def check_effects(request: CheckpointRequest) -> None:
    """Find the effects of an unchecked checkpoint. Raises LaunchRefused for unaccepted ones."""
    if request.project is None:
        return
    try:
        effects = ask(ListNewEffects(request.checkpoint.pk, request.project.pk, request.entry_point))
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
        raise LaunchRefused([Refusal(Code.PLAN, translate(message))])
    if asked and not asked[0].error and not asked[0].following:
        raise LaunchRefused([Refusal(Code.PLAN, translate(UserMessage("langgraph.nothing_follows")))])
