"""The events of a job's page as rows. Streamed text is one row until another event follows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.functional import Promise
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.engines import event_detail, event_label
from viewer.formats.moments import moment_text
from viewer.jobs.event_values import positive_integer
from viewer.messages.message import message_from
from viewer.messages.translation import translate
from viewer.models import JobEvent

# Events that other parts of the page show: the plan, and how the job ended.
NOT_SHOWN = frozenset({"steps", "preflight", "ended"})
FAILED = "failed"
# The detail that a row shows when it is expanded.
DETAILS = {
    "tool_started": "arguments",
    "question": "prompt",
}
LABELS: dict[str, str | Promise] = {
    "started": _("Started %(engine)s %(engine_version)s"),
    "model_started": _("Called %(model)s"),
    "model_completed": _("%(model)s answered"),
    "model_failed": _("%(model)s failed"),
    "tool_started": _("Called the tool %(tool)s"),
    "tool_completed": _("%(tool)s returned"),
    "tool_failed": _("%(tool)s failed"),
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
            add_text(event_list, event)
        elif event.kind not in NOT_SHOWN:
            event_list.open_text = None
            event_list.rows.append(row_of(event))


def add_text(event_list: EventList, event: JobEvent) -> None:
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
    failed = event.kind.endswith(FAILED)
    return EventRow(
        seq=event.seq,
        kind=event.kind,
        at=event.at,
        text=label_of(event.kind, data),
        tone=tone_of(event.kind),
        agent=str(data.get("agent") or ""),
        detail=str(data.get("error" if failed else detail_name(event.kind), "") or ""),
        checkpoint=str(data.get("id") or "") if event.kind == "checkpoint" else "",
        tokens=positive_integer(data.get("tokens")),
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
    if kind in LABELS:
        return str(LABELS[kind]) % EventValues(data)
    label = event_label(kind)
    return gettext(label) % EventValues(data) if label else kind


def detail_name(kind: str) -> str:
    """Return the name of the value that the expanded row shows; empty if there is none."""
    return DETAILS.get(kind) or event_detail(kind)


class EventValues(dict[str, Any]):
    """The values of an event; a missing one is an empty string."""

    def __missing__(self, key: str) -> str:
        return ""
