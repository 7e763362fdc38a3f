"""The answers of a replayed model call, next to the recorded one."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from viewer.engines.contents import Section
from viewer.engines.editable import MISSING
from viewer.engines.recorded_calls import CallMessage, RequestedTool
from viewer.host_requests import NotReadable
from viewer.models import Checkpoint, Job
from viewer.presentation.calls import CallView, call_named, recorded_calls_of
from viewer.presentation.comparison import DetailColumn, detail_of, row_of
from viewer.records.prices import UNKNOWN, Cost, call_in, current_prices
from viewer.stores.model_calls import ModelCall

# Jobs that a call page lists.
MAX_REPLAYS = 50


@dataclass(frozen=True, slots=True)
class ReplayedAnswer:
    """An answer with what it cost, or the ``error`` of its call. ``attempt`` counts from 1 for each model.

    It is the recorded one if ``attempt`` is 0.
    """

    model: str
    attempt: int
    message: CallMessage | None
    seconds: float | None
    tokens: int
    cost: Cost
    error: str = ""

    @property
    def text(self) -> Any:
        """What a comparison shows: the text, then each requested tool call; MISSING without an answer."""
        if self.message is None:
            return MISSING
        calls = [f"{tool.name}({_json(tool.arguments)})" for tool in self.message.tools]
        return "\n".join(part for part in (self.message.text, *calls) if part)


@dataclass(frozen=True, slots=True)
class Answers:
    """The recorded answer, then the new ones, each with its differences from the recorded one."""

    unit: str
    columns: list[tuple[ReplayedAnswer, DetailColumn]]
    # The name of the recorded call, and the checkpoint that records it; empty if it is gone.
    call: str
    checkpoint: Checkpoint | None

    @property
    def is_empty(self) -> bool:
        return len(self.columns) < 2


def answers_of(job: Job) -> Answers | None:
    """The answers of a replay; None for another job."""
    if job.kind != Job.Kind.REPLAY:
        return None
    name = str((job.request.get("replay") or {}).get("recorded") or "")
    answers = [_recorded(job, name), *new_answers(job)]
    detail = detail_of(row_of((Section.OUTPUTS, name, ""), _("Answer"), [one.text for one in answers]))
    return Answers(detail.unit, list(zip(answers, detail.columns, strict=True)), name, job.checkpoint)


def new_answers(job: Job) -> Iterator[ReplayedAnswer]:
    """The answers of a replay in the order of its calls."""
    prices, used = current_prices(), list[ModelCall]()
    events = job.events.filter(kind__in=["model_completed", "call_replayed"]).order_by("seq")
    for event in events:
        if event.kind == "model_completed":
            used.append(call_in(event.data))
            continue
        data = event.data
        amounts = [
            prices.price(one.model, one.tokens_in, one.tokens_out, one.cached, event.at)
            for one in used
            if one.tokens
        ]
        known = [amount for amount in amounts if amount is not None]
        cost = Cost(sum(known), len(amounts) - len(known)) if known else UNKNOWN
        error = str(data.get("error") or "")
        yield ReplayedAnswer(
            model=str(data.get("model") or ""),
            attempt=int(data.get("attempt") or 1),
            message=None if error else _message(data),
            seconds=data.get("seconds"),
            tokens=sum(one.tokens for one in used),
            cost=cost,
            error=error,
        )
        used = []


def replays_of(checkpoint: Checkpoint, name: str) -> list[Job]:
    """The jobs of this run that replayed the call of this name, the newest first."""
    jobs = Job.objects.filter(
        kind=Job.Kind.REPLAY, run=checkpoint.run_id, request__replay__recorded=name
    ).select_related("requested_by")
    return list(jobs.order_by("-created_at")[:MAX_REPLAYS])


def _recorded(job: Job, name: str) -> ReplayedAnswer:
    view = _recorded_view(job, name)
    if view is None:
        return ReplayedAnswer("", 0, None, None, 0, UNKNOWN, _("The recorded answer can no longer be read."))
    call = view.call
    error = call.error or ("" if call.answer else _("No answer is recorded"))
    return ReplayedAnswer(call.model, 0, call.answer, call.seconds, call.usage.tokens, view.cost, error)


def _recorded_view(job: Job, name: str) -> CallView | None:
    """The recorded call; None if it can no longer be read."""
    if job.checkpoint is None:
        return None
    try:
        found = call_named(recorded_calls_of(job.checkpoint), name, job.checkpoint)
    except NotReadable:
        return None
    return found.view if found else None


def _message(data: Mapping[str, Any]) -> CallMessage:
    tools = [one for one in data.get("tools") or [] if isinstance(one, Mapping)]
    return CallMessage(
        "assistant",
        str(data.get("text") or ""),
        tools=tuple(
            RequestedTool(str(one.get("name") or ""), one.get("arguments"), str(one.get("id") or ""))
            for one in tools
        ),
    )


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
