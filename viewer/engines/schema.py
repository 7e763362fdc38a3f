"""What a run is made of: the entries of its state, its units, and the values that its code reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from viewer.engines.entry_points import InputName


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the state.

    ``kind`` is the type of its values, None if unknown. ``reducer`` names the function that adds a write to
    the entry; it is empty if a write replaces the entry, and None if that is unknown.
    """

    kind: type | None = None
    reducer: str | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """``units`` are those at which a run can stop, and to which an edited state can be attributed.

    ``is_inferred``: from the record of a run, where the project's code was not asked.
    """

    entries: Mapping[str, Entry] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    configurable: tuple[InputName, ...] = ()
    context: tuple[InputName, ...] = ()
    is_inferred: bool = True


NO_SCHEMA = Schema()
