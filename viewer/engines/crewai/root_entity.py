"""Chooses the root entity of a checkpoint: what a person ran."""

from collections.abc import Sequence
from typing import NamedTuple

# What a person ran includes what it started: a flow may have run crews, and a crew has agents.
KINDS = ("flow", "crew", "agent")


class EntityFacts(NamedTuple):
    """What the choice depends on, however the entity was decoded."""

    kind: str
    has_executor_type: bool
    has_name: bool
    is_quiet: bool


def is_executor(entity: EntityFacts) -> bool:
    """Whether it is an agent's executor, which is stored as a flow and which nobody ran."""
    return entity.kind == "flow" and (entity.has_executor_type or (not entity.has_name and entity.is_quiet))


def root_position(entities: Sequence[EntityFacts]) -> int | None:
    """The position of the root: the flow, else the crew, else the agent. None if there is none."""
    for kind in KINDS:
        for position, entity in enumerate(entities):
            if entity.kind == kind and not is_executor(entity):
                return position
    # A flow that only suppresses its events looks like an executor: it is the root if nothing else is.
    return next((position for position, one in enumerate(entities) if not one.has_executor_type), None)
