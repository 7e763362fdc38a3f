"""Reading the source and configuration of a project."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from viewer.engines.checkpoint_events import EventGroup, GroupTraits
from viewer.engines.entry_points import EntryPoint, EntryPointLabels, InputName


class ProjectReader(Protocol):
    """Finds entry points by reading source. Nothing of the project is imported."""

    def environment_file(self, folder: Path) -> Path | None:
        """The environment file that the project's configuration names, or None. The file may not exist."""
        return None

    def source_folders(self, folder: Path) -> tuple[Path, ...]:
        """The folders that the project's configuration adds to the import path, after the project's own."""
        return ()

    def find_entry_points(self, folder: Path) -> tuple[EntryPoint, ...]:
        """The entry points of a project's source."""

    def named_entry_points(self, folder: Path) -> Mapping[str, str]:
        """The entry points to which the project's configuration gives names, by these names."""
        return {}

    def entry_point_for(self, folder: Path, entry_points: Sequence[str], kind: str, name: str) -> str:
        """The entry point that a run of this kind and name belongs to; empty if that is unclear."""

    def entry_point_kinds(self, folder: Path, entry_points: Sequence[str]) -> dict[str, str]:
        """The name of each entry point's root kind; empty if the source does not show it."""

    def entry_point_title(self, entry_point: str) -> str:
        """A short name of an entry point."""

    @property
    def entry_point_labels(self) -> EntryPointLabels:
        """Texts for a person who chooses entry points."""

    def is_entry_point(self, text: str) -> bool:
        """Whether a text can name an entry point."""

    def input_names(self, folder: Path, entry_point: str, kind: str) -> tuple[InputName, ...]:
        """The inputs that an entry point's source names."""

    def checkpoint_events(self, interpreter: Path | None) -> tuple[EventGroup, ...]:
        """The events at which the engine in this interpreter's environment can write a checkpoint."""
        return ()

    @property
    def snippet_template(self) -> str:
        """The template of the lines that make a program write checkpoints to a ``path``."""

    @property
    def event_groups(self) -> Mapping[str, GroupTraits]:
        """Traits of the groups of ``checkpoint_events``, by name."""
        return {}
