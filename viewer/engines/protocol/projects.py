"""What a project's source and configuration say."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from viewer.engines.checkpoint_events import EventGroup, GroupTraits
from viewer.engines.entry_points import EntryPoint, EntryPointLabels, InputName


class ProjectReader(Protocol):
    """Finds entry points by reading source. It imports nothing of the project."""

    def environment_file(self, folder: Path) -> Path | None:
        """The environment file that the project's own configuration names, if any. It may be missing."""

    def source_folders(self, folder: Path) -> tuple[Path, ...]:
        """The folders that the project's configuration adds to the import path, after its own."""

    def find_entry_points(self, folder: Path) -> tuple[EntryPoint, ...]:
        """The entry points of a project's source."""

    def entry_point_for(self, folder: Path, entry_points: Sequence[str], kind: str, name: str) -> str:
        """The entry point that a run of this kind and name belongs to; empty if unclear."""

    def entry_point_kinds(self, folder: Path, entry_points: Sequence[str]) -> dict[str, str]:
        """The root kind of each entry point; empty if its source does not say."""

    def entry_point_title(self, entry_point: str) -> str:
        """A short name of an entry point."""

    @property
    def entry_point_labels(self) -> EntryPointLabels:
        """What the page of a project says about entry points."""

    def is_entry_point(self, text: str) -> bool:
        """Whether a text can name an entry point."""

    def input_names(self, folder: Path, entry_point: str, kind: str) -> tuple[InputName, ...]:
        """The inputs that an entry point's source names."""

    def checkpoint_events(self, interpreter: Path | None) -> tuple[EventGroup, ...]:
        """The events at which the engine in this interpreter's environment can write a checkpoint."""

    @property
    def event_groups(self) -> Mapping[str, GroupTraits]:
        """Traits of the groups of ``checkpoint_events``, by name."""
