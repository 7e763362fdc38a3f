"""A job's events as the rows of its page, in words. Streamed text is one row until something else happens."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from viewer.engines import all_engines
from viewer.jobs.event_values import positive_integer
from viewer.messages.labels import told
from viewer.messages.message import words_from
from viewer.models import JobEvent

# Events that the page shows elsewhere: the plan, and how the job ended.
NOT_SHOWN = frozenset({"steps", "preflight", "ended"})
FAILED = "failed"
# What is folded under a row.
DETAILS = {
    "tool_started": "arguments",
    "question": "prompt",
}
WORDS: dict[str, str | Promise] = {
    "started": _("Started %(engine)s %(engine_version)s"),
    "model_started": _("Asked %(model)s"),
    "model_completed": _("%(model)s answered"),
    "model_failed": _("%(model)s failed"),
    "tool_started": _("Used the tool %(tool)s"),
    "tool_completed": _("%(tool)s returned"),
    "tool_failed": _("%(tool)s failed"),
    "checkpoint": _("Checkpoint written"),
    "checkpoint_failed": _("A checkpoint could not be written"),
    "cache_warmed": _("Warmed the prompt cache"),
    "limit": _("Reached a limit, and begins nothing more"),
    "question": _("Asked a person, question %(number)s"),
    "answered": _("Question %(number)s was answered"),
    "withdrawn": _("Went on without an answer to question %(number)s"),
}


@dataclass(slots=True)
class Row:
    """One row. ``detail`` is folded, ``checkpoint`` an id to link to; ``tone``: plain, good, bad or warn."""

    seq: int
    kind: str
    at: datetime
    words: str
    tone: str = "plain"
    agent: str = ""
    detail: str = ""
    checkpoint: str = ""
    tokens: int = 0


@dataclass(slots=True)
class Timeline:
    """Rows that are new, and text that goes on in a row that is there already."""

    rows: list[Row] = field(default_factory=list)
    # The row that streamed text goes into, by its seq, while nothing else has happened.
    open_text: int | None = None
    open_agent: str = ""
    # What is to be added to a row that was shown before.
    added_to: int | None = None
    added: str = ""

    def take_new(self) -> "Timeline":
        """What is new since the last call, which is then counted as shown."""
        new = Timeline(self.rows, self.open_text, self.open_agent, self.added_to, self.added)
        self.rows, self.added_to, self.added = [], None, ""
        return new


def tell(timeline: Timeline, events: Iterable[JobEvent]) -> None:
    """Add these events, in their order, to what is new."""
    for event in events:
        if event.kind == "text":
            tell_text(timeline, event)
        elif event.kind not in NOT_SHOWN:
            timeline.open_text = None
            timeline.rows.append(row_of(event))


def tell_text(timeline: Timeline, event: JobEvent) -> None:
    """Streamed text goes on in its row, or begins one."""
    text, agent = str(event.data.get("text") or ""), str(event.data.get("agent") or "")
    if timeline.open_text is None or timeline.open_agent != agent:
        timeline.rows.append(Row(event.seq, "text", event.at, text, agent=agent))
        timeline.open_text, timeline.open_agent = event.seq, agent
    elif timeline.rows and timeline.rows[-1].seq == timeline.open_text:
        timeline.rows[-1].words += text
    else:
        timeline.added_to = timeline.open_text
        timeline.added += text


def row_of(event: JobEvent) -> Row:
    """One event in words."""
    data = event.data
    failed = event.kind.endswith(FAILED)
    return Row(
        seq=event.seq,
        kind=event.kind,
        at=event.at,
        words=words_of(event.kind, data),
        tone=tone_of(event.kind),
        agent=str(data.get("agent") or ""),
        detail=str(data.get("error" if failed else detail_name(event.kind), "") or ""),
        checkpoint=str(data.get("id") or "") if event.kind == "checkpoint" else "",
        tokens=positive_integer(data.get("tokens")),
    )


def tone_of(kind: str) -> str:
    """How a row of this kind looks: plain, good, bad or warn."""
    if kind.endswith(FAILED):
        return "bad"
    if kind.endswith("completed"):
        return "good"
    return "warn" if kind in {"warning", "question", "limit"} else "plain"


def words_of(kind: str, data: Mapping[str, Any]) -> str:
    """What happened, in a few words; the kind itself where it is a newer one."""
    if kind == "warning":
        return told(words_from(data.get("words"), str(data.get("message") or "")))
    if kind in WORDS:
        return str(WORDS[kind]) % Known(data)
    label = next((one.event_labels[kind] for one in all_engines() if kind in one.event_labels), "")
    return gettext(label) % Known(data) if label else kind


def detail_name(kind: str) -> str:
    """The part of an event's data that is folded under its row; empty if none is."""
    found = (one.event_details[kind] for one in all_engines() if kind in one.event_details)
    return DETAILS.get(kind) or next(found, "")


class Known(dict[str, Any]):
    """The values of an event, with nothing where one is missing."""

    def __missing__(self, key: str) -> str:
        return ""
