"""The part of a form for the events that write checkpoints, and for how many checkpoints are kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from viewer.engines.checkpoint_events import EventGroup, GroupTraits
from viewer.engines.protocol import Engine, kind_of
from viewer.forms.fields import Sent
from viewer.jobs.spool import CheckpointSettings
from viewer.launching.option_values import parse_kept_checkpoints
from viewer.launching.values import InvalidValue
from viewer.presentation.run.triggers import trigger_words

EVENTS = "checkpoint_events"
MOST = "checkpoint_most"
EVERY = "*"


@dataclass(frozen=True, slots=True)
class EventChoice:
    """An event: its name in the engine, its label, and whether it is ticked."""

    name: str
    words: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class EventChoices:
    """The events of one of the engine's groups."""

    name: str
    choices: list[EventChoice]
    is_usual: bool = False
    traits: GroupTraits | None = None

    @property
    def title(self) -> str:
        return _(self.traits.label) if self.traits else self.name.replace("_", " ")

    @property
    def is_frequent(self) -> bool:
        return self.traits is not None and self.traits.is_frequent

    @property
    def hint(self) -> str:
        """What to know before ticking one; empty if there is nothing."""
        hints = [_("They come often: many checkpoints.")] if self.is_frequent else []
        if self.traits and self.traits.hint:
            hints.append(_(self.traits.hint))
        return " ".join(hints)

    @property
    def is_open(self) -> bool:
        return self.is_usual or any(choice.is_chosen for choice in self.choices)


@dataclass(slots=True)
class Checkpointing:
    """The part of a form. ``before`` are the events that apply if none is ticked."""

    groups: list[EventChoices] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    before: tuple[str, ...] = ()
    most_text: str = ""
    most: int | None = None
    events_error: str = ""
    most_error: str = ""

    @property
    def settings(self) -> CheckpointSettings:
        """The settings of a request: only those that were chosen."""
        chosen = CheckpointSettings()
        if self.events:
            chosen["events"] = list(self.events)
        if self.most is not None:
            chosen["most"] = self.most
        return chosen

    @property
    def is_open(self) -> bool:
        return bool(self.events or self.most_text or self.errors)

    @property
    def takes_every(self) -> bool:
        return EVERY in self.events

    @property
    def summary(self) -> str:
        """A short label of what is chosen."""
        events = self.events or self.before
        shown = ", ".join(trigger_words(one) for one in events[:3]) + (" …" if len(events) > 3 else "")
        if self.takes_every:
            shown = _("at every event")
        if not self.events:
            shown = _("unchanged: %(events)s") % {"events": shown} if shown else _("project settings")
        if self.most is not None:
            shown += ", " + _("the newest %(most)d stay") % {"most": self.most}
        return shown

    @property
    def warning(self) -> str:
        """What to consider before the start; empty if there is nothing."""
        often = {name for group in self.groups if group.is_frequent for name in _names(group)}
        if self.most is None and (self.takes_every or often & set(self.events)):
            return _(
                "This writes many checkpoints, each with the whole record so far. Keep only some of them."
            )
        return ""

    @property
    def errors(self) -> list[tuple[str, str, str]]:
        """The id, label and message of each invalid field."""
        found = [
            ("checkpoint-events", _("Checkpoints at"), self.events_error),
            ("checkpoint-most", _("So many stay"), self.most_error),
        ]
        return [one for one in found if one[2]]


def read_checkpointing(
    engine: Engine[Any],
    groups: Sequence[EventGroup],
    entity: str,
    before: Sequence[str],
    sent: Sent,
    chosen: Sequence[str],
) -> Checkpointing:
    """The part, first shown if ``sent`` is None. ``chosen`` are the ticked events.

    ``entity`` is what runs: a root kind's name.
    """
    events = list(dict.fromkeys(chosen)) if sent is not None else []
    made = Checkpointing(
        groups=[
            EventChoices(
                group.name,
                [EventChoice(name, trigger_words(name), name in events) for name in group.events],
                is_usual=group.name == kind_of(engine, entity).usual_events,
                traits=engine.event_groups.get(group.name),
            )
            for group in groups
        ],
        events=events,
        before=tuple(before),
        most_text="" if sent is None else sent.get(MOST, "").strip(),
    )
    known = {EVERY, *(name for group in groups for name in group.events)}
    unknown = [name for name in events if name not in known]
    if unknown:
        made.events_error = _("The project's %(engine)s does not know these events: %(names)s.") % {
            "engine": engine.title,
            "names": ", ".join(unknown),
        }
    _read_most(made)
    return made


def _read_most(made: Checkpointing) -> None:
    if not made.most_text:
        return
    try:
        made.most = parse_kept_checkpoints(made.most_text)
    except InvalidValue as invalid:
        made.most_error = str(invalid)


def _names(group: EventChoices) -> set[str]:
    return {choice.name for choice in group.choices}
