"""Replays: recorded model calls that are sent again, edited, alone or many at once."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from viewer.engines.plan import EditableMessage, MessageEdit
from viewer.engines.recorded_calls import RecordedCall
from viewer.engines.runner_protocol import ReplayedCall, ReplayModels, Request
from viewer.formats import short_size
from viewer.host_requests import HostRefusal, each_asked_once
from viewer.launching import requests
from viewer.launching.bulk import size_error
from viewer.launching.edits import has_redacted_part
from viewer.launching.options import (
    MAX_REPLAYED_CALLS,
    PARAMETERS,
    REPLAY_MODELS,
    REPLAY_PARAMETERS,
    REPLAY_TOOLS,
    SCORE,
)
from viewer.launching.refusals import (
    CheckedLaunch,
    Code,
    LaunchRefused,
    Refusal,
    copy_refusals,
    digest_of,
    messages_of,
    plan_changed,
    project_refusals,
    quota_refusals,
    text_refusals,
)
from viewer.launching.start import earlier_job, queued
from viewer.launching.sweep import Planned, function_refusals, start_group, started_group
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Collection, CollectionItem, Host, Job, Location, Project, Sweep
from viewer.records.bodies import calls_in, readable_contents
from viewer.records.collections import checkpoints_of
from viewer.records.runner_requests import REPEATABLE_EDITS, request_for_replay
from viewer.redaction import MARKER
from viewer.validation import shortened

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
            found.append(replace(message, content=edit.content, calls=edit.calls))
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

    request: requests.ReplayRequest

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


def preview_replay(request: requests.ReplayRequest) -> ReplayPreview:
    """How many calls the replay makes, and why it cannot start."""
    preview = ReplayPreview(request=request)
    preview.checks = [
        *copy_refusals(request.checkpoint),
        *project_refusals(request.project, request.options),
        *quota_refusals(request),
        *_model_refusals(
            request.replay_models, preview.calls, _("The call does not record its model: name one.")
        ),
        *step_refusals(request.options),
        *content_refusals(request),
    ]
    return preview


def _model_refusals(models: Sequence[str], calls: int, none_named: str) -> Iterator[Refusal]:
    """The refusals of no models, with the message ``none_named``, and of too many calls for one job."""
    if not models:
        yield Refusal(Code.REPLAY, none_named, REPLAY_MODELS.name, str(REPLAY_MODELS.label))
    if calls > MAX_REPLAYED_CALLS:
        message = _("This would make %(count)d calls. The limit is %(most)d.")
        values = {"count": calls, "most": MAX_REPLAYED_CALLS}
        yield Refusal(Code.REPLAY, message % values, REPLAY_MODELS.name, str(REPLAY_MODELS.label))


def step_refusals(options: requests.LaunchOptions) -> Iterator[Refusal]:
    """The refusal of a limit of steps, which a replay would never reach."""
    if "steps" in options.limits:
        yield Refusal(Code.REPLAY, _("A replay has no steps. Limit its tokens or seconds instead."))


def content_refusals(request: requests.ReplayRequest) -> Iterator[Refusal]:
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
    _check_confirmed(preview)
    return queued(request, Job.Kind.REPLAY, job_request, [])


def _check_confirmed(preview: "ReplayPreview | CallsReplayPreview") -> None:
    """Raise LaunchRefused if it cannot start, or if a person has confirmed another number of calls."""
    if preview.refusals:
        raise LaunchRefused(preview.refusals)
    if preview.request.confirmed not in (None, preview.calls):
        message = _("Confirm the number of model calls, and press the button again.")
        raise LaunchRefused([Refusal(Code.SEND_AGAIN, message)])


def shown_models(models: Sequence[str], project: Project | None) -> list[str]:
    """The names of models without secrets. None is shown while the project's host does not answer."""
    shown: list[str] | None = requests.redacted(list(models), project)
    return shown or [MARKER for _model in models]


def request_of(request: requests.ReplayRequest, shown: Sequence[str]) -> Request:
    """The request of the job. ``shown`` are the names of its models without secrets."""
    call = request.call
    models = ReplayModels(
        models=list(shown), times=request.times, recorded=call.name, model=call.model, agent=call.agent
    )
    return request_for_replay(request.checkpoint, _sent(request), models, request.entry_point)


def _sent(request: requests.ReplayRequest) -> ReplayedCall:
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


# Replays model calls of a branch or a collection with the same models: a group of jobs, one for each.


# Each is a job, and their answers are on one page.
MAX_CALLS = 50
# Of the messages, tools and parameters of all calls, as JSON. Each job stores those of its call.
MAX_BYTES = 16 * 1024 * 1024
# The bytes of a message besides its text: its role, and the names of its fields.
_BYTES_A_MESSAGE = 100


@dataclass(frozen=True, slots=True)
class ChosenCall:
    """A call by its name in a checkpoint, and the project in which it is replayed.

    Without a ``call``, ``refusals`` say why there is none. ``label`` names it among the others.
    """

    label: str
    name: str
    checkpoint: Checkpoint | None
    call: RecordedCall | None = None
    project: Project | None = None
    entry_point: str = ""
    refusals: Sequence[Refusal] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsReplayRequest(requests.LaunchRequest):
    """The replay of these ``calls``, each as in ReplayRequest.

    ``project`` is that of all calls; None if they have several. ``checkpoint`` records all of them, or they
    are items of the ``collection``. ``left_out`` is the number of older calls beyond the limit. ``score`` is
    the function that scores the new answer of each call and the recorded one.
    """

    calls: Sequence[ChosenCall]
    checkpoint: Checkpoint | None = None
    collection: Collection | None = None
    left_out: int = 0
    replay_models: tuple[str, ...] = ()
    times: int = 1
    confirmed: int | None = None
    score: str = ""

    @property
    def away(self) -> Host | None:
        projects = {one.project for one in self.calls if one.call and one.project}
        return next((away for project in projects if (away := project.away_host)), None)


def calls_of_branch(
    checkpoint: Checkpoint, calls: Sequence[RecordedCall], project: Project | None, entry_point: str
) -> dict[str, Any]:
    """The fields of a request for the calls that a checkpoint records, which are those of its branch."""
    chosen = [
        ChosenCall(_label(f"{number}.", call), call.name, checkpoint, call, project, entry_point)
        for number, call in list(enumerate(calls, 1))[-MAX_CALLS:]
    ]
    left_out = len(calls) - len(chosen)
    return {"checkpoint": checkpoint, "project": project, "calls": chosen, "left_out": left_out}


def calls_of_collection(collection: Collection) -> dict[str, Any]:
    """The fields of a request for the calls in a collection, each in the project of its location."""
    calls = collection.items.filter(kind=CollectionItem.Kind.CALL)
    items = list(calls.order_by("-pk")[:MAX_CALLS])[::-1]
    found = checkpoints_of(items)
    rows = {row.pk: row for row in found.values()}
    error, chosen = size_error(rows.values()), dict[int, ChosenCall]()
    with each_asked_once():
        for row in rows.values():
            some = [item for item in items if item.pk in found and found[item.pk].pk == row.pk]
            chosen |= _refused(some, error, row) if error else _read(some, row)
    missing = [item for item in items if item.pk not in found]
    chosen |= _refused(missing, _("It was not found here."))
    projects = {one.project for one in chosen.values() if one.call}
    return {
        "collection": collection,
        "project": projects.pop() if len(projects) == 1 else None,
        "calls": [chosen[item.pk] for item in items],
        "left_out": calls.count() - len(items),
    }


def _read(items: Sequence[CollectionItem], checkpoint: Checkpoint) -> dict[int, ChosenCall]:
    """The calls of items of one checkpoint, by the keys of the items."""
    project = checkpoint.location.project
    try:
        contents = readable_contents(checkpoint)
        entry_point = requests.matching_entry_point(contents, project)
    except HostRefusal as error:
        return _refused(items, translate(error), checkpoint)
    calls = {call.name: call for call in calls_in(contents)}
    found = {}
    for item in items:
        if call := calls.get(item.part):
            label = _label(f"{checkpoint.run},", call)
            found[item.pk] = ChosenCall(label, call.name, checkpoint, call, project, entry_point)
        else:
            message = _("The checkpoint does not record the call %s.") % shortened(item.part)
            found |= _refused([item], message, checkpoint)
    return found


def _refused(
    items: Sequence[CollectionItem], message: str, checkpoint: Checkpoint | None = None
) -> dict[int, ChosenCall]:
    """The items, which are not replayed because of the message."""
    refusals = [Refusal(Code.CHECKPOINT, message)]
    return {item.pk: ChosenCall(str(item), item.part, checkpoint, refusals=refusals) for item in items}


def _label(prefix: str, call: RecordedCall) -> str:
    return f"{prefix} {call.agent or call.model}".rstrip(" ,")


@dataclass(frozen=True, slots=True)
class CallMember:
    """One of the calls with the request for its replay, and why it is not replayed."""

    chosen: ChosenCall
    request: requests.ReplayRequest | None
    refusals: Sequence[Refusal]

    @property
    def messages(self) -> list[str]:
        return messages_of(self.refusals)


@dataclass(kw_only=True)
class CallsReplayPreview(CheckedLaunch):
    """What is replayed, and what is not."""

    request: CallsReplayRequest
    members: list[CallMember] = field(default_factory=list)

    @cached_property
    def starting(self) -> list[requests.ReplayRequest]:
        """The requests of the calls that are replayed."""
        return [one.request for one in self.members if one.request and not one.refusals]

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

    @property
    def sources(self) -> list[tuple[Location, Project | None, str, int]]:
        """The locations of the calls, with the project and the entry point that replay them, and how many."""
        found = Counter((one.checkpoint.location, one.project, one.entry_point) for one in self.starting)
        return [(*source, count) for source, count in found.most_common()]

    @property
    def plan_digest(self) -> str:
        """A digest of what is replayed. A form sends the digest of what it showed."""
        plan = [
            [one.checkpoint.pk, one.call.name, one.project and one.project.pk, one.entry_point]
            for one in self.starting
        ]
        return digest_of([json.dumps(plan)])


def preview_calls_replay(request: CallsReplayRequest) -> CallsReplayPreview:
    """Which calls are replayed, and why others or all cannot be."""
    size = sum(_estimated_bytes(one.call) for one in request.calls if one.call)
    projects = list(dict.fromkeys(one.project for one in request.calls if one.call))
    of_projects = {one: project_refusals(one, request.options) for one in projects}
    is_of_one = request.project is not None or request.checkpoint is not None
    members = [
        _member(request, one, [] if is_of_one else of_projects.get(one.project, ())) for one in request.calls
    ]
    preview = CallsReplayPreview(request=request, members=members if size <= MAX_BYTES else [])
    preview.checks = [
        *(copy_refusals(request.checkpoint) if request.checkpoint else ()),
        *(of_projects.get(request.project, ()) if is_of_one else ()),
        *_model_refusals(
            request.replay_models,
            len(request.replay_models) * request.times,
            _("Name the models to which the calls are sent."),
        ),
        *step_refusals(request.options),
        *_score_refusals(request),
    ]
    if size > MAX_BYTES:
        message = _("The calls have %(size)s. At most %(most)s can be replayed at once.")
        values = {"size": short_size(size), "most": short_size(MAX_BYTES)}
        preview.checks.append(Refusal(Code.REPLAY, message % values))
    elif not preview.starting:
        message = _("This checkpoint records no call that can be replayed.")
        if request.collection:
            message = _("The collection has no model call that can be replayed.")
        preview.checks.append(Refusal(Code.REPLAY, message))
    else:
        preview.checks += quota_refusals(request, len(preview.starting))
    return preview


def _estimated_bytes(call: RecordedCall) -> int:
    """About as many bytes as a call has as JSON."""
    texts = sum(len(one.text) + len(str(one.tools)) + _BYTES_A_MESSAGE for one in call.messages)
    return texts + len(str(call.tools)) + len(str(call.parameters))


def _member(request: CallsReplayRequest, chosen: ChosenCall, refusals: Sequence[Refusal]) -> CallMember:
    call, checkpoint = chosen.call, chosen.checkpoint
    if call is None or checkpoint is None:
        return CallMember(chosen, None, chosen.refusals)
    one = requests.ReplayRequest(
        checkpoint=checkpoint,
        call=call,
        messages=call_messages(call),
        tools=call_tools(call),
        parameters=call_parameters(call),
        replay_models=request.replay_models,
        times=request.times,
        project=chosen.project,
        entry_point=chosen.entry_point,
    )
    return CallMember(chosen, one, [*refusals, *content_refusals(one)])


def _score_refusals(request: CallsReplayRequest) -> list[Refusal]:
    """Why the answers cannot be scored: each is compared with the recorded one, as a pair."""
    if not request.score:
        return []
    found = function_refusals(request.score)
    if len(request.replay_models) * request.times > 1:
        message = _("A score compares one new answer with each recorded one: name one model, called once.")
        found.append(Refusal(Code.SCORE, message, "score-function", str(SCORE.label)))
    return found


def replay_calls(preview: CallsReplayPreview) -> Sweep:
    """Queue a job for each call in one transaction, once per request key. Raises LaunchRefused."""
    request = preview.request
    if earlier := started_group(request.key):
        return earlier
    if request.seen_plan not in (None, preview.plan_digest):
        raise plan_changed()
    _check_confirmed(preview)
    shown = list(request.replay_models)
    for project in dict.fromkeys(one.project for one in preview.starting):
        shown = shown_models(shown, project)
    planned = [
        _planned(one.chosen.label, one.request, shown)
        for one in preview.members
        if one.request and not one.refusals
    ]
    return start_group(
        ", ".join(shown),
        planned,
        request.key,
        request.options,
        checkpoint=request.checkpoint,
        requested_by=request.requested_by,
        score=request.score,
        collection=request.collection,
    )


def _planned(label: str, request: requests.ReplayRequest, shown: Sequence[str]) -> Planned:
    job_request = request_of(request, shown)
    # For the form that replays one of them again. Only the models were typed.
    kept = {name: value for name, value in job_request["call"].items() if name != "models"}
    if tuple(shown) == request.replay_models:
        kept["models"] = list(shown)
    return Planned(
        label,
        job_request["branch"],
        {**job_request, REPEATABLE_EDITS: {"call": kept}},
        [],
        request.checkpoint,
        request.project,
        Job.Kind.REPLAY,
    )
