"""Replays the model calls of a branch with the same models: a group of jobs, one for each call."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from django.utils.translation import gettext as _

from viewer.engines.recorded_calls import RecordedCall
from viewer.formats import short_size
from viewer.host_requests import JobRefused
from viewer.launching.findings import CheckedLaunch
from viewer.launching.options import REPLAY_MODELS
from viewer.launching.refusals import (
    Code,
    LaunchRefused,
    Refusal,
    away_host,
    copy_refusals,
    messages_of,
    project_refusals,
)
from viewer.launching.replay import (
    call_messages,
    call_parameters,
    call_tools,
    calls_sentence,
    content_refusals,
    count_refusals,
    request_of,
    shown_models,
    step_refusals,
)
from viewer.launching.requests import CallsReplayRequest, ReplayRequest
from viewer.launching.start import refusal_of
from viewer.launching.sweep import Planned, start_group
from viewer.models import Job, Sweep
from viewer.records.runner_requests import REPEATABLE_EDITS

# Each is a job, and their answers are on one page.
MAX_CALLS = 50
# Of the messages, tools and parameters of all calls, as JSON. Each job stores those of its call.
MAX_BYTES = 16 * 1024 * 1024
# The bytes of a message besides its text: its role, and the names of its fields.
_BYTES_A_MESSAGE = 100


@dataclass(frozen=True, slots=True)
class CallMember:
    """One of the calls, by its number in the checkpoint, and why it is not replayed."""

    number: int
    request: ReplayRequest
    refusals: Sequence[Refusal]

    @property
    def call(self) -> RecordedCall:
        return self.request.call

    @property
    def messages(self) -> list[str]:
        return messages_of(self.refusals)

    @property
    def label(self) -> str:
        """The number of the call, and the agent that made it."""
        return " ".join(filter(None, [f"{self.number}.", self.call.agent or self.call.model]))


@dataclass(kw_only=True)
class CallsReplayPreview(CheckedLaunch):
    """What is replayed, and what is not. ``left_out`` is the number of older calls beyond the limit."""

    request: CallsReplayRequest
    members: list[CallMember] = field(default_factory=list)
    left_out: int = 0

    @cached_property
    def starting(self) -> list[CallMember]:
        """The calls that are replayed."""
        return [one for one in self.members if not one.refusals]

    @cached_property
    def refused(self) -> list[CallMember]:
        """The calls that are not replayed."""
        return [one for one in self.members if one.refusals]

    @property
    def calls(self) -> int:
        """The number of model calls that all of them make."""
        return len(self.starting) * len(self.request.replay_models) * self.request.times

    @property
    def sentence(self) -> str:
        """What it does, with the number of calls."""
        return calls_sentence(self.calls)


def preview_calls_replay(request: CallsReplayRequest) -> CallsReplayPreview:
    """Which calls are replayed, and why others or all cannot be."""
    calls = list(enumerate(request.calls, 1))[-MAX_CALLS:]
    size = sum(_estimated_bytes(call) for _number, call in calls)
    preview = CallsReplayPreview(
        request=request,
        members=[_member(request, *one) for one in calls] if size <= MAX_BYTES else [],
        left_out=len(request.calls) - len(calls),
        away=away_host(request.project),
    )
    preview.checks = [
        *copy_refusals(request.checkpoint),
        *project_refusals(request.project, request.options),
        *_model_refusals(request),
        *step_refusals(request.options),
    ]
    if size > MAX_BYTES:
        message = _("The calls have %(size)s. At most %(most)s can be replayed at once.")
        values = {"size": short_size(size), "most": short_size(MAX_BYTES)}
        preview.checks.append(Refusal(Code.REPLAY, message % values))
    elif not preview.starting:
        message = _("This checkpoint records no call that can be replayed.")
        preview.checks.append(Refusal(Code.REPLAY, message))
    return preview


def _estimated_bytes(call: RecordedCall) -> int:
    """About as many bytes as a call has as JSON."""
    texts = sum(len(one.text) + len(str(one.tools)) + _BYTES_A_MESSAGE for one in call.messages)
    return texts + len(str(call.tools)) + len(str(call.parameters))


def _member(request: CallsReplayRequest, number: int, call: RecordedCall) -> CallMember:
    one = ReplayRequest(
        checkpoint=request.checkpoint,
        call=call,
        messages=call_messages(call),
        tools=call_tools(call),
        parameters=call_parameters(call),
        replay_models=request.replay_models,
        times=request.times,
        project=request.project,
        entry_point=request.entry_point,
    )
    return CallMember(number, one, list(content_refusals(one)))


def _model_refusals(request: CallsReplayRequest) -> Iterator[Refusal]:
    if not request.replay_models:
        message = _("Name the models to which the calls are sent.")
        yield Refusal(Code.REPLAY, message, REPLAY_MODELS.name, str(REPLAY_MODELS.label))
    yield from count_refusals(len(request.replay_models) * request.times)


def replay_calls(preview: CallsReplayPreview) -> Sweep:
    """Queue a job for each call in one transaction, once per request key. Raises LaunchRefused."""
    request = preview.request
    if earlier := _started(request):
        return earlier
    if preview.refusals:
        raise LaunchRefused(preview.refusals)
    if request.confirmed not in (None, preview.calls):
        message = _("Confirm the number of model calls, and press the button again.")
        raise LaunchRefused([Refusal(Code.SEND_AGAIN, message)])
    shown = shown_models(request.replay_models, request.project)
    planned = [_planned(one, shown) for one in preview.starting]
    try:
        return start_group(
            ", ".join(shown),
            planned,
            request.key,
            request.options,
            checkpoint=request.checkpoint,
            requested_by=request.requested_by,
        )
    except JobRefused as refused:
        if earlier := _started(request):
            return earlier
        raise LaunchRefused([refusal_of(refused, Job.Kind.REPLAY)]) from refused


def _started(request: CallsReplayRequest) -> Sweep | None:
    """The jobs that this request has already started; None if there are none."""
    return Sweep.objects.filter(idempotency_key=request.key).first()


def _planned(member: CallMember, shown: Sequence[str]) -> Planned:
    request, job_request = member.request, request_of(member.request, shown)
    # For the form that replays one of them again. Only the models were typed.
    kept = {name: value for name, value in job_request["call"].items() if name != "models"}
    if tuple(shown) == request.replay_models:
        kept["models"] = list(shown)
    return Planned(
        member.label,
        job_request["branch"],
        {**job_request, REPEATABLE_EDITS: {"call": kept}},
        [],
        request.checkpoint,
        request.project,
        Job.Kind.REPLAY,
    )
