"""Replays a recorded model call, as a person has edited it: a job sends it to models of the project."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from viewer.engines.editable import EditableMessage, MessageEdit
from viewer.engines.recorded_calls import RecordedCall
from viewer.engines.runner_request import ReplayedCall, ReplayModels, Request
from viewer.launching.options import (
    MAX_REPLAYED_CALLS,
    PARAMETERS,
    REPLAY_MODELS,
    REPLAY_PARAMETERS,
    REPLAY_TOOLS,
)
from viewer.launching.refusals import (
    CheckedLaunch,
    Code,
    LaunchRefused,
    Refusal,
    away_host,
    copy_refusals,
    project_refusals,
    quota_refusals,
    text_refusals,
)
from viewer.launching.requests import LaunchOptions, ReplayRequest, redactor_of
from viewer.launching.start import earlier_job, queued
from viewer.launching.values import has_redacted_part
from viewer.models import Job, Project
from viewer.records.runner_requests import request_for_replay
from viewer.redaction import MARKER

# The messages, tools and parameters of a recorded call, as they are edited.


def call_messages(call: RecordedCall) -> list[EditableMessage]:
    """The messages of a recorded call, oldest first."""
    return [
        EditableMessage(
            position,
            "",
            message.role,
            message.name,
            message.text,
            [{"name": tool.name, "args": tool.arguments, "id": tool.id} for tool in message.tools],
            message.answers,
        )
        for position, message in enumerate(call.messages)
    ]


def edited_call_messages(
    messages: Sequence[EditableMessage], edits: Sequence[MessageEdit]
) -> list[EditableMessage]:
    """The messages with these edits: new ones precede the message that they name, or come last."""
    changed = {edit.position: edit for edit in edits if edit.position is not None}
    found = []
    for message in messages:
        found += [_new(edit) for edit in edits if edit.position is None and edit.before == message.position]
        edit = changed.get(message.position)
        if edit is None:
            found.append(message)
        elif not edit.is_removed:
            found.append(
                EditableMessage(
                    message.position,
                    message.id,
                    message.role,
                    message.name,
                    edit.content,
                    edit.calls,
                    message.answers_call,
                )
            )
    return [*found, *(_new(edit) for edit in edits if edit.position is None and edit.before is None)]


def _new(edit: MessageEdit) -> EditableMessage:
    return EditableMessage(-1, "", edit.role, "", edit.content, edit.calls, edit.answers_call)


def call_tools(call: RecordedCall) -> list[dict[str, Any]]:
    """The tools of a recorded call, as a person edits them."""
    return [
        {"name": tool.name, "description": tool.description, "schema": tool.schema} for tool in call.tools
    ]


def call_parameters(call: RecordedCall) -> dict[str, Any]:
    """The recorded parameters that a replay can set."""
    return {name: value for name, value in call.parameters.items() if name in REPLAY_PARAMETERS}


# Starts a replay, once.


@dataclass(slots=True, kw_only=True)
class ReplayPreview(CheckedLaunch):
    """Why a replay cannot start."""

    request: ReplayRequest

    @property
    def calls(self) -> int:
        """The number of model calls that it makes."""
        return len(self.request.replay_models) * self.request.times

    @property
    def sentence(self) -> str:
        """What it does, with the number of calls."""
        return calls_sentence(self.calls)


def calls_sentence(count: int) -> str:
    """What a replay with this number of model calls does."""
    text = ngettext(
        "This makes %(count)d model call with the project's keys. It may cost money.",
        "This makes %(count)d model calls with the project's keys. They may cost money.",
        count,
    )
    return text % {"count": count}


def preview_replay(request: ReplayRequest) -> ReplayPreview:
    """How many calls the replay makes, and why it cannot start."""
    preview = ReplayPreview(request=request, away=away_host(request.project))
    preview.checks = [
        *copy_refusals(request.checkpoint),
        *project_refusals(request.project, request.options),
        *quota_refusals(request),
        *_model_refusals(request, preview.calls),
        *step_refusals(request.options),
        *content_refusals(request),
    ]
    return preview


def _model_refusals(request: ReplayRequest, calls: int) -> Iterator[Refusal]:
    if not request.replay_models:
        message = _("The call does not record its model: name one.")
        yield Refusal(Code.REPLAY, message, REPLAY_MODELS.name, str(REPLAY_MODELS.label))
    yield from count_refusals(calls)


def count_refusals(calls: int) -> Iterator[Refusal]:
    """The refusal of too many calls for one job."""
    if calls > MAX_REPLAYED_CALLS:
        message = _("This would make %(count)d calls. The limit is %(most)d.")
        values = {"count": calls, "most": MAX_REPLAYED_CALLS}
        yield Refusal(Code.REPLAY, message % values, REPLAY_MODELS.name, str(REPLAY_MODELS.label))


def step_refusals(options: LaunchOptions) -> Iterator[Refusal]:
    """The refusal of a limit of steps, which a replay would never reach."""
    if "steps" in options.limits:
        yield Refusal(Code.REPLAY, _("A replay has no steps. Limit its tokens or seconds instead."))


def content_refusals(request: ReplayRequest) -> Iterator[Refusal]:
    """Refusals of what must not be sent: nothing, a redacted secret, and what is not UTF-8."""
    if not request.messages:
        yield Refusal(Code.REPLAY, _("A model call needs a message. Add one."))
    message = _("%(part)s: %(marker)s is in place of a secret. Replace it or remove it: it is not sent.")
    parts = {
        **{
            _("Message %(number)d") % {"number": number}: [one.content, list(one.calls)]
            for number, one in enumerate(request.messages, 1)
        },
        str(REPLAY_TOOLS.label): list(request.tools),
        str(PARAMETERS.label): dict(request.parameters),
        str(REPLAY_MODELS.label): list(request.replay_models),
    }
    for name, value in parts.items():
        if has_redacted_part(value):
            yield Refusal(Code.REDACTED_PARTS, message % {"part": name, "marker": MARKER})
    yield from text_refusals(parts)


def replay(preview: ReplayPreview) -> Job:
    """Queue the replay, once per request key. Raises LaunchRefused."""
    request = preview.request
    job_request = request_of(request, shown_models(request.replay_models, request.project))
    if earlier := earlier_job(request, job_request):
        return earlier
    if preview.refusals:
        raise LaunchRefused(preview.refusals)
    if request.confirmed not in (None, preview.calls):
        message = _("Confirm the number of model calls, and press the button again.")
        raise LaunchRefused([Refusal(Code.SEND_AGAIN, message)])
    return queued(request, Job.Kind.REPLAY, job_request, [])


def shown_models(models: Sequence[str], project: Project | None) -> list[str]:
    """The names of models without secrets. None is shown while the project's host does not answer."""
    shown: list[str] | None = redactor_of(project)(list(models))
    return shown or [MARKER for _model in models]


def request_of(request: ReplayRequest, shown: Sequence[str]) -> Request:
    """The request of the job. ``shown`` are the names of its models without secrets."""
    call = request.call
    models = ReplayModels(
        models=list(shown), times=request.times, recorded=call.name, model=call.model, agent=call.agent
    )
    return request_for_replay(request.checkpoint, _sent(request), models, request.entry_point)


def _sent(request: ReplayRequest) -> ReplayedCall:
    messages = [
        {
            "role": one.role,
            "text": one.content,
            "name": one.name,
            "tools": list(one.calls),
            "answers": one.answers_call,
        }
        for one in request.messages
    ]
    return ReplayedCall(
        messages=messages,
        tools=list(map(dict, request.tools)),
        parameters=dict(request.parameters),
        models=list(request.replay_models),
    )
