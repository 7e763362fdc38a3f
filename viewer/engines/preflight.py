"""What a preflight check finds, in an engine's own terms."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# The answer that a stored component is no longer in the project (see Options in viewer/jobs/request.py).
GONE = "-"


@dataclass(frozen=True, slots=True)
class Component:
    """One component of a run. ``fate`` is restored, project (the project's code has it) or lost.

    ``unit`` is the position of the unit that it belongs to, 0 if it belongs to none. A person accepts its
    loss by ``loss_name``.
    """

    what: str
    name: str
    fate: str
    loss_name: str
    unit: int = 0
    agent: str = ""


@dataclass(frozen=True, slots=True)
class PreflightLabels:
    """English labels of what the runner reports, to be translated, by the names that it reports."""

    # One component of each kind.
    components: Mapping[str, str] = field(default_factory=dict)
    # Sentences with ``name``, of components that a run would lack.
    losses: Mapping[str, str] = field(default_factory=dict)
    # A component of a unit, with ``position`` and ``text``.
    of_unit: str = "%(position)d: %(text)s"
    # A stored component to be matched, with ``position`` and ``title``, and why a person is asked.
    matches: Mapping[str, str] = field(default_factory=dict)
    match_reasons: Mapping[str, str] = field(default_factory=dict)
    # The kinds of matches whose choices are numbered.
    numbered_matches: frozenset[str] = frozenset()
    # Sentences with ``detail``.
    notes: Mapping[str, str] = field(default_factory=dict)
