"""A checkpoint's row as JSON, the same in every output."""

from datetime import UTC
from typing import Any

from viewer.models import Checkpoint


def checkpoint_document(row: Checkpoint) -> dict[str, Any]:
    """Its ids as the engine writes them; ``created_at`` is ISO, in UTC.

    ``units_total`` counts what is known of: a run of which nothing says that it has finished may have more.
    """
    return {
        "id": row.checkpoint_id,
        "parent_id": _parent_id(row),
        "edge": row.parent_link,
        "branch": row.branch,
        "trigger": row.trigger,
        "created_at": row.created_at.astimezone(UTC).isoformat() if row.created_at else None,
        "entity": row.entity,
        "name": row.name,
        "units_done": row.units_done,
        "units_total": row.units_done if row.total is None else row.total,
        "event_count": row.event_count,
        "tokens": row.tokens,
        "size": row.size,
        "state": row.state,
        **_step(row),
    }


def _step(row: Checkpoint) -> dict[str, Any]:
    """The step, where the engine counts steps, and the units of it with their statuses."""
    return {} if row.step is None else {"step": row.step, "turn": row.turn, "units": row.units}


def _parent_id(row: Checkpoint) -> str | None:
    """The recorded parent, even if it is not imported, else the inferred one."""
    if row.parent_checkpoint_id or row.parent is None:
        return row.parent_checkpoint_id or None
    return row.parent.checkpoint_id
