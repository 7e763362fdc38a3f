"""What an engine decodes from a stored copy."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from viewer.engines.contents import Agent, Failure


class Contents(Protocol):
    """What a stored copy holds, as its engine decodes it. The engine's templates may read more of it."""

    @property
    def engine(self) -> str:
        """The name of the engine that wrote it."""

    @property
    def kind(self) -> str:
        """The name of the root entity's kind; ``unknown`` if the copy has no root entity."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def engine_version(self) -> str: ...
    @property
    def is_of_newer_version(self) -> bool:
        """Whether it was written by an engine that is newer than every known version."""

    @property
    def inputs(self) -> Mapping[str, Any]: ...
    @property
    def agents(self) -> Sequence[Agent]: ...
    @property
    def events(self) -> Sequence[Any]: ...
    @property
    def failure(self) -> Failure | None:
        """The last failure that the checkpoint records; None if it records none."""

    @property
    def checkpoint_events(self) -> Sequence[str]:
        """The events at which the run writes checkpoints; empty if that is not stored."""

    @property
    def unreadable(self) -> Mapping[str, Any]:
        """The parts that are stored but cannot be decoded, by name, with what is shown in their place."""

    @property
    def unknown(self) -> Sequence[str]:
        """The parts that no known version of the engine writes."""


C = TypeVar("C", bound=Contents)
# For protocols whose functions only take contents.
C_contra = TypeVar("C_contra", bound=Contents, contravariant=True)
