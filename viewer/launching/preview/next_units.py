"""What would run next after a fork's edits, for each unit that they can be attributed to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.jobs.execution.starting.start import JobRefused
from viewer.jobs.preflight.checks import ask_next_units
from viewer.launching.preview.launch_preview import source_refusals
from viewer.launching.refusals import Refusal, messages_of
from viewer.launching.requests.requests import ForkRequest
from viewer.messages.translation import translate


@dataclass(frozen=True, slots=True)
class NextUnits:
    """``unit`` is empty if the engine decides. ``after`` has the edited entries of the state as texts."""

    unit: str
    following: tuple[str, ...]
    error: str = ""
    after: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """The next units for each unit, or why they are unknown."""

    units: tuple[NextUnits, ...] = ()
    refused: str = ""
    refusals: tuple[Refusal, ...] = ()

    @property
    def after(self) -> Mapping[str, str]:
        """The values of the edited entries afterwards, equal for every unit; empty if unknown."""
        return next((one.after for one in self.units if one.after), {})


def ask_next(request: ForkRequest) -> Asked:
    """Ask the project's code what runs next. Waits for the answer. Nothing runs or is written."""
    kind = kind_of(engine_of(request.contents), request.contents.kind)
    if not kind.adds_to_state or request.project is None:
        return Asked(refused="")
    if refusals := source_refusals(request):
        return Asked(refused=" ".join(messages_of(refusals)), refusals=tuple(refusals))
    try:
        found = ask_next_units(request.checkpoint, request.project, request.entry_point, request.edits)
    except JobRefused as refused:
        return Asked(refused=translate(refused))
    return Asked(tuple(_read(one) for one in found))


def _read(one: Mapping[str, Any]) -> NextUnits:
    return NextUnits(
        str(one.get("node") or ""),
        tuple(str(name) for name in one.get("next") or ()),
        str(one.get("error") or ""),
        {str(name): str(text) for name, text in (one.get("after") or {}).items()},
    )
