"""The calls of models and tools that a checkpoint records, and the pages on which a person replays them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.engines import engine_of
from viewer.engines.plan import EditableMessage
from viewer.engines.recorded_calls import RecordedCall
from viewer.formats import count_text
from viewer.host_requests import NotReadable
from viewer.launching.edits import as_json, normal_line_ends
from viewer.launching.options import PARAMETERS, REPLAY_MODELS, REPLAY_TOOLS, TIMES, Option
from viewer.launching.replay import (
    CallsReplayPreview,
    CallsReplayRequest,
    ReplayPreview,
    call_messages,
    call_parameters,
    call_tools,
    calls_of_branch,
    calls_of_collection,
    edited_call_messages,
    preview_calls_replay,
    preview_replay,
    replay_calls,
)
from viewer.launching.replay import replay as start_replay
from viewer.launching.requests import ReplayRequest, edits_not_kept, edits_to_repeat, matching_entry_point
from viewer.models import Checkpoint, Collection, Job, Right, Sweep
from viewer.presentation.calls import (
    CallView,
    answers_of,
    call_named,
    call_views,
    recorded_call,
    recorded_calls_of,
    replays_of,
)
from viewer.presentation.jobs.pages import shown_job
from viewer.records.audit import Audited, opens
from viewer.records.bodies import calls_in, readable_contents
from viewer.records.permissions import requires
from viewer.records.prices import UNKNOWN, Cost
from viewer.validation import number_in
from viewer.web.fields import OptionField, valid_values
from viewer.web.launch.conversations import ConversationPart, fits_form, message_forms
from viewer.web.launch.options import LimitsForm, StartTimeForm, launch_options, limit_texts, score_field
from viewer.web.launch.page import LaunchPage
from viewer.web.launch.prefilled import Retry, StartingPoint, Submission, editable_parts_of
from viewer.web.views import launches


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
        return start_replay(self.preview)


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


# Calls on one page of the list.
PAGE = 100


@requires(Right.VIEW)
@require_GET
def index(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the calls of a checkpoint, newest first, from the call number ``?before=`` on."""
    checkpoint = _checkpoint(pk)
    context = _context(checkpoint)
    try:
        calls = recorded_calls_of(checkpoint)
    except NotReadable as error:
        return render(request, "calls/list.html", {**context, "not_readable": error.message})
    end = min(number_in(request.GET.get("before", "")) or len(calls), len(calls))
    start = max(0, end - PAGE)
    context |= {"views": call_views(calls[start:end], checkpoint)[::-1], "older": start}
    return render(request, "calls/list.html", context)


@requires(Right.VIEW)
@require_GET
def show(request: HttpRequest, pk: int, call: str) -> HttpResponse:
    """Show one call of a checkpoint."""
    return _call_page(request, _checkpoint(pk), call)


def _call_page(request: HttpRequest, checkpoint: Checkpoint, call: str) -> HttpResponse:
    """The page of a call. It says so if the checkpoint cannot be read or lacks the call."""
    context = _context(checkpoint)
    try:
        contents = readable_contents(checkpoint)
    except NotReadable as error:
        return render(request, "calls/page.html", {**context, "not_readable": error.message})
    context["found"] = found = call_named(calls_in(contents), call, checkpoint)
    if found:
        opens(Audited.CALL, f"{checkpoint.pk}/{found.view.call.name}")
        can_fork = found.view.call.part in editable_parts_of(request.user, checkpoint, contents)
        context["fork_query"] = _fork_query(found.view.call) if can_fork else ""
        context |= _replays_of(checkpoint, found.view, can_fork)
    return render(request, "calls/page.html", context)


def _replays_of(checkpoint: Checkpoint, view: CallView, can_fork: bool) -> dict[str, object]:
    """The replays of a call. The newest one has its answers, and until it has ended its bar."""
    replays = replays_of(checkpoint, view.call.name)
    if not replays:
        return {}
    newest = replays[0]
    context: dict[str, object] = {
        "replays": replays,
        "job": newest,
        "answers": answers_of(newest, view),
    }
    context["can_fork"] = can_fork
    return context if newest.has_ended else context | {"shown": shown_job(newest)}


def answers_context(request: HttpRequest, job: Job) -> dict[str, object]:
    """The answers of a replay, and whether a fork can use them; empty for another job."""
    if job.kind != Job.Kind.REPLAY:
        return {}
    read = recorded_call(job)
    if read is None or job.checkpoint is None:
        return {"answers": answers_of(job, None)}
    contents, view = read
    parts = editable_parts_of(request.user, job.checkpoint, contents)
    return {"answers": answers_of(job, view), "can_fork": view.call.part in parts}


@requires(Right.VIEW)
@require_GET
def answers(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The answers of a replay, for an open page when there are new ones. Nothing for another job."""
    related = ("checkpoint__location__project", "checkpoint__run", "project", "location")
    job = get_object_or_404(Job.objects.select_related(*related), pk=pk)
    context = answers_context(request, job)
    if not context:
        return HttpResponse(status=204)
    return render(request, "calls/_answers.html", {"job": job, **context})


@requires(Right.RUN)
@require_http_methods(["GET", "POST"])
def replay(request: HttpRequest, pk: int, call: str) -> HttpResponse:
    """The form that replays a call. Sending it starts the job, once."""
    checkpoint = launches.get_checkpoint(pk)
    if response := launches.before_form(request, checkpoint.location):
        return response
    page = _replay_page(request, checkpoint, call)
    if page is None:
        return _call_page(request, checkpoint, call)
    return launches.launch_response(
        request, page, "calls/replays/form.html", lambda: _replay_context(page), Job.get_absolute_url
    )


@requires(Right.RUN)
@require_POST
def plan_replay(request: HttpRequest, pk: int, call: str) -> HttpResponse:
    """What the form would do. Nothing starts."""
    checkpoint = launches.get_checkpoint(pk)
    page = _replay_page(request, checkpoint, call)
    if page is None:
        return _call_page(request, checkpoint, call)
    part, whole = "calls/replays/_plan.html", "calls/replays/form.html"
    return launches.plan_response(request, part, whole, _replay_context(page))


@requires(Right.RUN)
@require_http_methods(["GET", "POST"])
def replay_all(request: HttpRequest, pk: int) -> HttpResponse:
    """The form that replays all calls of a branch. Sending it starts a job for each, once."""
    checkpoint = launches.get_checkpoint(pk)
    if response := launches.before_form(request, checkpoint.location):
        return response
    page = _branch_page(request, checkpoint)
    return _calls_response(request, page) if page else redirect("checkpoint-calls", pk)


@requires(Right.RUN)
@require_POST
def plan_replay_all(request: HttpRequest, pk: int) -> HttpResponse:
    """What the form would do. Nothing starts."""
    page = _branch_page(request, launches.get_checkpoint(pk))
    return _calls_plan(request, page) if page else redirect("checkpoint-calls", pk)


@requires(Right.RUN)
@require_http_methods(["GET", "POST"])
def replay_collection(request: HttpRequest, pk: int) -> HttpResponse:
    """The form that replays the calls of a collection. Sending it starts a job for each, once."""
    return _calls_response(request, _collection_page(request, pk))


@requires(Right.RUN)
@require_POST
def plan_replay_collection(request: HttpRequest, pk: int) -> HttpResponse:
    """What the form would do. Nothing starts."""
    return _calls_plan(request, _collection_page(request, pk))


def _branch_page(request: HttpRequest, checkpoint: Checkpoint) -> CallsReplayPage | None:
    """The page; None if the checkpoint cannot be read."""
    try:
        contents = readable_contents(checkpoint)
    except NotReadable:
        return None
    project = checkpoint.location.project
    entry_point = matching_entry_point(contents, project)
    calls = calls_of_branch(checkpoint, calls_in(contents), project, entry_point)
    return calls_replay_page(calls, launches.submission_of(request), launches.content_key(request))


def _collection_page(request: HttpRequest, pk: int) -> CallsReplayPage:
    calls = calls_of_collection(get_object_or_404(Collection, pk=pk))
    return calls_replay_page(calls, launches.submission_of(request), launches.content_key(request))


def _calls_response(request: HttpRequest, page: CallsReplayPage) -> HttpResponse:
    template = "calls/replays/all_calls.html"
    return launches.launch_response(
        request, page, template, lambda: _calls_context(page), Sweep.get_absolute_url
    )


def _calls_plan(request: HttpRequest, page: CallsReplayPage) -> HttpResponse:
    part, whole = "calls/replays/_all_calls_plan.html", "calls/replays/all_calls.html"
    return launches.plan_response(request, part, whole, _calls_context(page))


def _calls_context(page: CallsReplayPage) -> dict[str, object]:
    checkpoint, collection = page.request.checkpoint, page.request.collection
    if checkpoint:
        name, before, arguments = "replay-all", "checkpoint-calls", [checkpoint.pk]
    else:
        name, before, arguments = "collection-replay", "collection", [collection.pk if collection else 0]
    address = reverse(name, args=arguments)
    return (_context(checkpoint) if checkpoint else {"collection": collection}) | {
        "page": page,
        "project": page.request.project,
        "address": address,
        "page_address": address,
        "plan_address": reverse(f"{name}-plan", args=arguments),
        "cancel_address": reverse(before, args=arguments),
    }


def _replay_page(request: HttpRequest, checkpoint: Checkpoint, name: str) -> ReplayPage | None:
    """The page of a recorded call; None if the checkpoint cannot be read or lacks the call."""
    try:
        contents = readable_contents(checkpoint)
    except NotReadable:
        return None
    found = call_named(calls_in(contents), name, checkpoint)
    if found is None:
        return None
    point = StartingPoint(checkpoint, contents, checkpoint.location.project)
    retried = launches.retried_job(
        request, checkpoint=checkpoint, kind=Job.Kind.REPLAY, request__replay__recorded=name
    )
    return replay_page(point, found.view, launches.submission_of(request), retried)


def _replay_context(page: ReplayPage) -> dict[str, object]:
    checkpoint, name = page.request.checkpoint, page.request.call.name
    address = reverse("replay", args=[checkpoint.pk, name])
    return _context(checkpoint) | {
        "page": page,
        "call": page.request.call,
        "project": page.request.project,
        "address": address,
        "page_address": f"{address}?retry={page.retry.job.pk}" if page.retry else address,
        "plan_address": reverse("replay-plan", args=[checkpoint.pk, name]),
    }


def _fork_query(call: RecordedCall) -> str:
    """The query of the fork form that opens at the call's answer, or with it as the output of its unit."""
    query = {"edit": call.part}
    if call.result:
        query["call"] = call.name
    return urlencode(query)


def _checkpoint(pk: int) -> Checkpoint:
    rows = Checkpoint.objects.select_related("run__location", "location", "stored_copy")
    return get_object_or_404(rows, pk=pk)


def _context(checkpoint: Checkpoint) -> dict[str, object]:
    return {
        "checkpoint": checkpoint,
        "run": checkpoint.run,
        "location": checkpoint.location,
        "engine": engine_of(checkpoint.location),
    }
