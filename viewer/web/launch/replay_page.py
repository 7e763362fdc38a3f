"""The pages on which a person replays a recorded model call, edited, or those of a branch or collection."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.http import QueryDict

from viewer.engines.editable import EditableMessage
from viewer.engines.recorded_calls import RecordedCall
from viewer.formats import count_text
from viewer.launching.edits import as_json, normal_line_ends
from viewer.launching.options import PARAMETERS, REPLAY_MODELS, REPLAY_TOOLS, TIMES, Option
from viewer.launching.replay import (
    CallsReplayPreview,
    CallsReplayRequest,
    ReplayPreview,
    call_messages,
    call_parameters,
    call_tools,
    edited_call_messages,
    preview_calls_replay,
    preview_replay,
    replay,
    replay_calls,
)
from viewer.launching.requests import ReplayRequest, edits_not_kept, edits_to_repeat
from viewer.models import Job, Sweep
from viewer.presentation.sweeps import CallView, call_views
from viewer.records.prices import UNKNOWN, Cost
from viewer.web.fields import OptionField, valid_values
from viewer.web.launch.conversations import ConversationPart, fits_form, message_forms
from viewer.web.launch.edits import first_error
from viewer.web.launch.options import LimitsForm, StartTimeForm, launch_options, limit_texts, score_field
from viewer.web.launch.page import LaunchPage
from viewer.web.launch.prefilled import Retry, StartingPoint, Submission


class StoredField(OptionField):
    """An option that is ``stored`` unless its text was edited: only what a person types is parsed."""

    def __init__(self, option: Option[Any], stored: Any) -> None:
        super().__init__(option, option.name)
        self.stored, self.stored_text = stored, as_json(stored) if stored else ""
        self.initial = self.stored_text

    def clean(self, value: Any) -> Any:
        text = str(value or "").strip()
        if value is None or normal_line_ends(text) == self.stored_text.strip():
            return self.stored
        return super().clean(value) if text else type(self.stored)()


class CallsForm(forms.Form):
    """The models, how often each is called, and the confirmed number of calls."""

    models = OptionField(REPLAY_MODELS, "models")
    times = OptionField(TIMES, "times")
    confirmed = forms.IntegerField(required=False, min_value=0, max_value=1000)


class ReplayForm(CallsForm):
    """Also the tools and the parameters."""

    def __init__(self, data: Any, base: "BaseCall") -> None:
        super().__init__(data, initial={"models": ", ".join(base.models), "times": base.times})
        self.fields["tools"] = StoredField(REPLAY_TOOLS, list(base.tools))
        self.fields["parameters"] = StoredField(PARAMETERS, dict(base.parameters))

    def error_of(self, name: str) -> str:
        """The first error of a field; empty if there is none."""
        return first_error(self[name])


class ReplayLimitsForm(LimitsForm):
    """The limits of a replay, which has no steps."""

    limit_steps = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class BaseCall:
    """What the form begins with: the recorded call, or that of a job that is replayed again."""

    messages: Sequence[EditableMessage]
    tools: Sequence[Any]
    parameters: Mapping[str, Any]
    models: Sequence[str]
    times: int = 1


@dataclass(kw_only=True)
class ReplayPage(LaunchPage[ReplayPreview, Job]):
    """The page with the preview of its request. ``recorded`` is the call as it was recorded."""

    form: ReplayForm
    conversation: ConversationPart
    timing: StartTimeForm
    limits: LimitsForm
    preview: ReplayPreview
    recorded: CallView

    @property
    def forms(self) -> Sequence[forms.Form]:
        return (self.form, *self.conversation.forms.forms, self.timing, self.limits)

    @property
    def request(self) -> ReplayRequest:
        return self.preview.request

    @property
    def edits_messages(self) -> bool:
        """Whether the messages are short enough to be edited here. Otherwise, they are sent as they are."""
        return bool(self.conversation.forms.messages) or not self.request.messages

    @property
    def other_parts(self) -> int:
        """The number of parts of recorded messages that are not text. A replay does not send them."""
        return sum(message.other_parts for message in self.recorded.call.messages)

    @property
    def tokens(self) -> str:
        """The tokens of the recorded call as text; empty if they are not recorded."""
        tokens = self.recorded.call.usage.tokens
        return count_text(tokens) if tokens else ""

    def launch(self) -> Job:
        return replay(self.preview)


def replay_page(
    point: StartingPoint, recorded: CallView, submission: Submission, retried: Job | None
) -> ReplayPage:
    """The page in its initial state, or with the submitted values."""
    data, call = submission.data, recorded.call
    base = _base_of(call, retried)
    form, timing = ReplayForm(data, base), StartTimeForm(data)
    limits = ReplayLimitsForm(data, initial=limit_texts(retried.limits) if retried else None)
    values = valid_values(form)
    edited = base.messages if fits_form(base.messages) else []
    conversation = ConversationPart(message_forms(data, "call", edited), "messages", None, True)
    request = ReplayRequest(
        checkpoint=point.checkpoint,
        call=call,
        messages=edited_call_messages(base.messages, conversation.forms.edits),
        tools=_value(values, "tools", base.tools),
        parameters=_value(values, "parameters", base.parameters),
        replay_models=values.get("models") or tuple(base.models),
        times=values.get("times") or base.times,
        confirmed=values.get("confirmed") or 0,
        project=point.project,
        entry_point=point.proposed["entry_point"],
        options=launch_options(timing, limits),
        key=submission.key,
        requested_by=submission.user,
    )
    return ReplayPage(
        **submission.page_values,
        form=form,
        conversation=conversation,
        timing=timing,
        limits=limits,
        preview=preview_replay(request),
        recorded=recorded,
        retry=Retry(retried, QueryDict(), edits_not_kept(retried)) if retried else None,
    )


# The page on which a person replays all calls of a branch or a collection.


class CollectionCallsForm(CallsForm):
    """Also the function that scores the answers."""

    score = score_field()


@dataclass(kw_only=True)
class CallsReplayPage(LaunchPage[CallsReplayPreview, Sweep]):
    """The page with the preview of its request. ``cost`` and ``tokens`` are those of the recorded calls."""

    form: CallsForm
    timing: StartTimeForm
    limits: LimitsForm
    preview: CallsReplayPreview
    cost: Cost
    tokens: int

    @property
    def forms(self) -> Sequence[forms.Form]:
        return (self.form, self.timing, self.limits)

    @property
    def request(self) -> CallsReplayRequest:
        return self.preview.request

    def launch(self) -> Sweep:
        return replay_calls(self.preview)


def calls_replay_page(calls: Mapping[str, Any], submission: Submission, key: UUID) -> CallsReplayPage:
    """The page in its initial state, or with the submitted values.

    ``calls`` are the fields of ``calls_of_branch`` or ``calls_of_collection``, and ``key`` is that of the
    submitted content.
    """
    data = submission.data
    kind = CollectionCallsForm if calls.get("collection") else CallsForm
    form, timing, limits = kind(data, initial={"times": 1}), StartTimeForm(data), ReplayLimitsForm(data)
    values = valid_values(form)
    request = CallsReplayRequest(
        **{"project": None, **calls},
        replay_models=values.get("models") or (),
        times=values.get("times") or 1,
        confirmed=values.get("confirmed") or 0,
        score=str(values.get("score") or ""),
        options=launch_options(timing, limits),
        key=key,
        requested_by=submission.user,
        seen_plan=None if data is None else data.get("shown"),
    )
    preview = preview_calls_replay(request)
    views = [view for one in preview.starting for view in call_views([one.call], one.checkpoint)]
    return CallsReplayPage(
        **submission.page_values,
        form=form,
        timing=timing,
        limits=limits,
        preview=preview,
        cost=sum((view.cost for view in views), UNKNOWN),
        tokens=sum(view.call.usage.tokens for view in views),
    )


def _value(values: Mapping[str, Any], name: str, stored: Any) -> Any:
    return values[name] if values.get(name) is not None else stored


def _base_of(call: RecordedCall, retried: Job | None) -> BaseCall:
    """What the form begins with. What an earlier job did not keep is that of the recorded call."""
    recorded = BaseCall(
        call_messages(call), call_tools(call), call_parameters(call), [call.model] if call.model else []
    )
    if retried is None:
        return recorded
    kept, models = edits_to_repeat(retried)["call"], retried.request.get("replay") or {}
    messages = [_message(number, one) for number, one in enumerate(kept.get("messages") or [])]
    return BaseCall(
        messages or recorded.messages,
        kept.get("tools", recorded.tools),
        kept.get("parameters", recorded.parameters),
        list(kept.get("models") or recorded.models),
        int(models.get("times") or 1),
    )


def _message(position: int, sent: Mapping[str, Any]) -> EditableMessage:
    read: Callable[[str], str] = lambda name: str(sent.get(name) or "")  # noqa: E731
    return EditableMessage(
        position, "", read("role"), read("name"), sent.get("text"), sent.get("tools") or [], read("answers")
    )
