"""What a run is made of: the entries of its state, its units, and the values that its code reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from viewer.engines.entry_points import InputName

# The names of the reducers that replace and remove messages by their ids.
MERGES_BY_ID = ("add_messages", "_add_messages", "add_messages_delta")


@dataclass(frozen=True, slots=True)
class StateEntry:
    """An entry of the state.

    ``kind`` is the type of its values, None if unknown. ``reducer`` names the function that adds a write to
    the entry; it is empty if a write replaces the entry, and None if that is unknown.
    """

    kind: type | None = None
    reducer: str | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """What a run is made of. A run can stop at ``units``, and an edited state can be attributed to them.

    ``is_inferred`` is true if the schema comes from a checkpoint instead of the project's code.
    """

    entries: Mapping[str, StateEntry] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    configurable: tuple[InputName, ...] = ()
    context: tuple[InputName, ...] = ()
    is_inferred: bool = True

    @property
    def digest(self) -> str:
        """A hash that identifies the schema. A form contains that of the schema it was made with."""
        return sha256(repr(self).encode()).hexdigest()[:16]

    def merges_by_id(self, name: str) -> bool:
        """Whether the reducer of this entry replaces and removes messages by their ids."""
        entry = self.entries.get(name)
        return bool(entry and entry.reducer and entry.reducer.rpartition(".")[2] in MERGES_BY_ID)


NO_SCHEMA = Schema()
