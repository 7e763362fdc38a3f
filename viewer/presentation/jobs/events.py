"""The progress and the events of a job, as its page shows them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.functional import Promise
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.engines import event_detail, event_label, unit_subjects
from viewer.engines.contents import short_title
from viewer.formats import moment_text
from viewer.messages.message import message_from
from viewer.messages.translation import translate
from viewer.models import Job, JobEvent
from viewer.stores.protocol import count_of

# The progress of a job, computed from its events. Pure.


# Actions with which a step does not run.
NOT_RUN = frozenset({"kept", "edited", "pinned"})
# Maximum length of the streamed text in the progress bar, in characters.
MAX_TEXT = 400


@dataclass(slots=True)
class ShownStep:
    """One step of the plan.

    ``state`` is kept, waiting, running, done or failed; skipped if the job succeeded without it; if the job
    ended otherwise, stopped or unrun.
    """

    unit: str
    position: int
    title: str
    agent: str
    action: str
    reason: str
    state: str

    @property
    def is_done(self) -> bool:
        return self.state in {"kept", "done"}

    @property
    def shown_reason(self) -> str:
        """The reason for the action; empty for unfinished steps that have started in the meantime."""
        return "" if self.reason == "unfinished" and self.state != "waiting" else self.reason


@dataclass(slots=True)
class Progress:
    """The progress of a job up to the event ``seq``."""

    steps: list[ShownStep] = field(default_factory=list)
    running: str = ""
    text: str = ""
    speaker: str = ""
    tokens: int = 0
    seq: int = 0
    # The prompts of unanswered questions, by number.
    asks: dict[int, str] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return sum(step.is_done for step in self.steps)

    @property
    def total(self) -> int:
        return sum(step.state != "skipped" for step in self.steps)

    @property
    def shape(self) -> tuple[object, ...]:
        """Everything that the progress bar shows, except the streamed text and the number of the event."""
        shown = (self.running, self.speaker, self.tokens, self.done, self.total)
        return (*shown, bool(self.text), tuple(self.asks.items()))


def progress_of(plan: Sequence[Mapping[str, Any]]) -> Progress:
    """Return the progress of a job before its start, from its plan."""
    return Progress(steps=steps_from(plan))


def steps_from(plan: Sequence[Mapping[str, Any]]) -> list[ShownStep]:
    """Return the steps of a stored plan before its start."""
    return [
        ShownStep(
            unit=str(step.get("unit", "")),
            position=count_of(step.get("position")) or position,
            title=short_title(str(step.get("title", ""))),
            agent=str(step.get("agent") or ""),
            action=str(step.get("action", "")),
            reason=str(step.get("reason", "")),
            state="kept" if step.get("action") in NOT_RUN else "waiting",
        )
        for position, step in enumerate(plan, 1)
    ]


def advance(progress: Progress, seq: int, kind: str, data: Mapping[str, Any]) -> None:
    """Apply one event. Events must be in order; one that was applied before is ignored."""
    if seq <= progress.seq:
        return
    progress.seq = seq
    subject, _, happened = kind.partition("_")
    if kind == "steps":
        name_steps(progress, data.get("steps"))
    elif subject in unit_subjects():
        move_step(progress, subject, happened, data)
    elif kind in {"model_completed", "cache_warmed"}:
        progress.tokens = count_of(data.get("total_tokens")) or progress.tokens
    elif kind == "text":
        add_text(progress, str(data.get("text") or ""), str(data.get("agent") or ""))
    elif kind == "question":
        progress.asks[count_of(data.get("number"))] = str(data.get("prompt") or "")
    elif kind in {"answered", "withdrawn"}:
        progress.asks.pop(count_of(data.get("number")), None)
    elif kind == "ended":
        progress.running = ""


def halt(progress: Progress, status: str) -> None:
    """Mark the steps of a job that ended with this status.

    Running steps are stopped, or failed if the job has failed and no step has. Steps that did not run in a
    job that succeeded were skipped, by a condition or a router.
    """
    progress.running = ""
    has_failed_step = any(step.state == "failed" for step in progress.steps)
    ends = {
        "running": "failed" if status == Job.Status.FAILED and not has_failed_step else "stopped",
        "waiting": "skipped" if status == Job.Status.SUCCEEDED else "unrun",
    }
    for step in progress.steps:
        step.state = ends.get(step.state, step.state)


def name_steps(progress: Progress, found: Any) -> None:
    """Add the steps that only the runner can know. It may have written anything."""
    known = {step.unit for step in progress.steps}
    entries = found if isinstance(found, list) else []
    for step in steps_from([entry for entry in entries if isinstance(entry, Mapping)]):
        if step.unit not in known:
            step.position = len(progress.steps) + 1
            progress.steps.append(step)


def move_step(progress: Progress, subject: str, happened: str, data: Mapping[str, Any]) -> None:
    """Update the step of a unit that started, completed or failed."""
    unit = str(data.get(subject) or "")
    step = next((step for step in progress.steps if step.unit == unit), None)
    if step is None:
        title = short_title(str(data.get("description") or "")) or unit
        agent = str(data.get("agent") or "")
        step = ShownStep(unit, len(progress.steps) + 1, title, agent, "runs", "", "waiting")
        progress.steps.append(step)
    step.state = {"started": "running", "completed": "done", "failed": "failed"}.get(happened, step.state)
    running = [step for step in progress.steps if step.state == "running"]
    progress.running = running[-1].title if running else ""
    if happened == "started":
        progress.text, progress.speaker = "", step.agent or str(data.get("agent") or "")


def add_text(progress: Progress, text: str, agent: str) -> None:
    """Append streamed text, on one line, up to the maximum length."""
    before = progress.text if agent == progress.speaker else ""
    progress.text = f"{before}{text}".replace("\n", " ")[-MAX_TEXT:]
    progress.speaker = agent


# The events of a job's page as rows. Streamed text is one row until another event follows.


# Events that other parts of the page show: the plan, the answers of a replay, and how the job ended.
NOT_SHOWN = frozenset({"steps", "preflight", "call_replayed", "ended"})
FAILED = "failed"
# The detail that a row shows when it is expanded.
DETAILS = {
    "tool_started": "arguments",
    "tool_decided": "arguments",
    "model_answered": "answer",
    "question": "prompt",
}
LABELS: dict[str, str | Promise] = {
    "started": _("Started %(engine)s %(engine_version)s"),
    "model_started": _("Called %(model)s"),
    "model_completed": _("%(model)s answered"),
    "model_failed": _("%(model)s failed"),
    "model_answered": _("Answered the call of %(model)s with a recorded answer"),
    "tool_started": _("Called the tool %(tool)s"),
    "tool_completed": _("%(tool)s returned"),
    "tool_failed": _("%(tool)s failed"),
    "tool_decided_call": _("Allowed the call of %(tool)s"),
    "tool_decided_recorded": _("Answered %(tool)s with the recorded result"),
    "tool_decided_refuse": _("Refused the call of %(tool)s"),
    "checkpoint": _("Checkpoint written"),
    "checkpoint_failed": _("Writing a checkpoint failed"),
    "cache_warmed": _("Warmed up the prompt cache"),
    "limit": _("Reached a limit. Nothing more starts."),
    "question": _("Asked question %(number)s"),
    "answered": _("Question %(number)s was answered"),
    "withdrawn": _("Continued without an answer to question %(number)s"),
}


@dataclass(slots=True)
class EventRow:
    """One row.

    ``detail`` is shown when the row is expanded. ``checkpoint`` is an id to link to. ``tone`` is plain, good,
    bad or warn.
    """

    seq: int
    kind: str
    at: datetime
    text: str
    tone: str = "plain"
    agent: str = ""
    detail: str = ""
    checkpoint: str = ""
    tokens: int = 0

    # Django's ``date`` filter takes a third of the time of a row, and a job may have a thousand a second.
    @property
    def moment(self) -> str:
        """The time in the current time zone, as ISO 8601."""
        return localtime(self.at).isoformat()

    @property
    def clock(self) -> str:
        """The time of day in the current time zone."""
        return moment_text(self.at, "clock")


@dataclass(slots=True)
class EventList:
    """New rows, and text to append to a row that was already sent."""

    rows: list[EventRow] = field(default_factory=list)
    # The seq of the row to which streamed text is appended until another event follows.
    open_text: int | None = None
    open_agent: str = ""
    # Text to append to a row that was already sent.
    added_to: int | None = None
    added: str = ""

    def pop_new(self) -> "EventList":
        """Return and clear what was added since the last call."""
        new = EventList(self.rows, self.open_text, self.open_agent, self.added_to, self.added)
        self.rows, self.added_to, self.added = [], None, ""
        return new


def add_events(event_list: EventList, events: Iterable[JobEvent]) -> None:
    """Add the events, in order."""
    for event in events:
        if event.kind == "text":
            append_text(event_list, event)
        elif event.kind not in NOT_SHOWN:
            event_list.open_text = None
            event_list.rows.append(row_of(event))


def append_text(event_list: EventList, event: JobEvent) -> None:
    """Append streamed text to its row, or start one."""
    text, agent = str(event.data.get("text") or ""), str(event.data.get("agent") or "")
    if event_list.open_text is None or event_list.open_agent != agent:
        event_list.rows.append(EventRow(event.seq, "text", event.at, text, agent=agent))
        event_list.open_text, event_list.open_agent = event.seq, agent
    elif event_list.rows and event_list.rows[-1].seq == event_list.open_text:
        event_list.rows[-1].text += text
    else:
        event_list.added_to = event_list.open_text
        event_list.added += text


def row_of(event: JobEvent) -> EventRow:
    """Return the row of one event."""
    data = event.data
    detail_name = DETAILS.get(event.kind) or event_detail(event.kind)
    if event.kind.endswith(FAILED):
        detail_name = "error"
    return EventRow(
        seq=event.seq,
        kind=event.kind,
        at=event.at,
        text=label_of(event.kind, data),
        tone=tone_of(event.kind),
        agent=str(data.get("agent") or ""),
        detail=str(data.get(detail_name, "") or ""),
        checkpoint=str(data.get("id") or "") if event.kind == "checkpoint" else "",
        tokens=count_of(data.get("tokens")),
    )


def tone_of(kind: str) -> str:
    """Return plain, good, bad or warn."""
    if kind.endswith(FAILED):
        return "bad"
    if kind.endswith("completed"):
        return "good"
    return "warn" if kind in {"warning", "question", "limit"} else "plain"


def label_of(kind: str, data: Mapping[str, Any]) -> str:
    """Return a short label of the event; the kind itself if it is unknown."""
    if kind == "warning":
        return translate(message_from(data.get("message")))
    if kind == "tool_decided":
        kind = f"{kind}_{data.get('decision')}"
    if kind in LABELS:
        return str(LABELS[kind]) % EventValues(data)
    label = event_label(kind)
    return gettext(label) % EventValues(data) if label else kind


class EventValues(dict[str, Any]):
    """The values of an event; a missing one is an empty string."""

    def __missing__(self, key: str) -> str:
        return ""
