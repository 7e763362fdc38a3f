"""What rows and pages say alike, however a checkpoint is decoded: its root entity, and its skipped tasks."""

from collections.abc import Sequence
from typing import NamedTuple

# In order of preference: a checkpoint of a flow also has the crews that it ran, and one of a crew its agents.
KINDS = ("flow", "crew", "agent")


class EntityFacts(NamedTuple):
    """The facts by which the root entity is chosen, however the entity was decoded."""

    kind: str
    has_executor_type: bool
    has_name: bool
    is_quiet: bool


def is_executor(entity: EntityFacts) -> bool:
    """Whether an entity is the executor of an agent, which is stored as a flow but is never the root."""
    return entity.kind == "flow" and (entity.has_executor_type or (not entity.has_name and entity.is_quiet))


def root_position(entities: Sequence[EntityFacts]) -> int | None:
    """The position of the root: the flow, else the crew, else the agent. None if there is none."""
    for kind in KINDS:
        for position, entity in enumerate(entities):
            if entity.kind == kind and not is_executor(entity):
                return position
    # A flow that suppresses its events looks like an executor. It is the root if no other entity is.
    return next((position for position, one in enumerate(entities) if not one.has_executor_type), None)


def skipped_positions(tasks: Sequence[tuple[bool, bool]], has_completed: bool) -> set[int]:
    """The positions, from 0, of a crew's tasks that were skipped because their condition did not hold.

    ``tasks`` say of each whether it has an output and whether it has started. Tasks start in their order, so
    one that never did was skipped if a later one has started, or if the crew has completed.
    """
    begun = [number for number, facts in enumerate(tasks) if any(facts)]
    until = len(tasks) if has_completed else begun[-1] if begun else 0
    return {number for number in range(until) if not any(tasks[number])}
