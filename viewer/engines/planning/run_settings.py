"""The settings of a run besides its input: where it stops, and the values that configure its code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RunSettings:
    """``stop_before`` and ``stop_after`` name the units at which a run stops; ``*`` is every unit.

    ``configurable`` and ``context`` are values for the project's code. They may be secrets.
    """

    stop_before: tuple[str, ...] = ()
    stop_after: tuple[str, ...] = ()
    configurable: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything was chosen."""
        return bool(self.stop_before or self.stop_after or self.configurable or self.context)


NO_SETTINGS = RunSettings()
