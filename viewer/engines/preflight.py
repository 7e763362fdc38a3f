"""The components that a preflight check finds, and an engine's labels for its report."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# The answer that a stored component is no longer in the project (see Options in viewer/jobs/request.py).
GONE = "-"


@dataclass(frozen=True, slots=True)
class Component:
    """One component of a run. ``fate`` is ``restored``, ``project`` (the project's code has it) or ``lost``.

    ``unit`` is the position of the unit that it belongs to; 0 if it belongs to none. ``loss_name`` is the
    name by which a person accepts its loss.
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
    # Sentences with ``position`` and ``title``, of stored components that a person has to match, and why.
    matches: Mapping[str, str] = field(default_factory=dict)
    match_reasons: Mapping[str, str] = field(default_factory=dict)
    # The kinds of matches whose choices are numbered.
    numbered_matches: frozenset[str] = frozenset()
    # Sentences with ``detail``.
    notes: Mapping[str, str] = field(default_factory=dict)
