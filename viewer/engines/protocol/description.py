"""The names, root kinds, tabs and runner of an engine."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from viewer.engines.contents import Tab
from viewer.engines.root_kinds import RootKind
from viewer.engines.runner import Runner


class EngineDescription(Protocol):
    """Names and labels that do not depend on a checkpoint."""

    @property
    def name(self) -> str:
        """The name that a location records."""

    @property
    def title(self) -> str:
        """The engine's name on pages."""

    @property
    def kinds(self) -> Mapping[str, RootKind]:
        """The kinds of root entities, by name."""

    @property
    def tabs(self) -> Sequence[Tab]:
        """The engine's own tabs of the checkpoint page."""

    @property
    def tab_order(self) -> Sequence[str]:
        """The names of all tabs in order: the engine's own, ``overview``, ``events`` and ``raw``."""

    @property
    def runner(self) -> Runner:
        """The program that runs the engine's jobs."""

    @property
    def distribution(self) -> str:
        """The Python distribution whose version is shown for an interpreter."""
