"""A checkpoint's row as JSON, the same in every output."""

from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from viewer.importing import branch_status
from viewer.models import Checkpoint
from viewer.presentation.run.branches import status_label

# Branches of a run that a list names before its checkpoints.
MAX_BRANCHES = 10


def checkpoint_document(row: Checkpoint) -> dict[str, Any]:
    """Its ids as the engine writes them; ``created_at`` is ISO, in UTC.

    ``units_total`` counts what is known of: a run of which nothing says that it has finished may have more.
    """
    return {
        "id": row.checkpoint_id,
        # What info, fork, diff and the other commands accept.
        "target": row.target,
        "parent_id": _parent_id(row),
        "edge": row.parent_link,
        "branch": row.branch,
        "recorded_branch": row.recorded_branch,
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


def branch_documents(rows: Sequence[Checkpoint]) -> list[dict[str, Any]]:
    """The branches of a run as JSON, by the checkpoints with which they end.

    The status is None for a branch that has not ended.
    """
    return [
        {
            "name": head.branch,
            "head": head.checkpoint_id,
            "target": head.target,
            "status": branch_status(head) or None,
        }
        for head in rows
        if head.is_branch_head
    ]


def branch_lines(rows: Sequence[Checkpoint]) -> Iterator[str]:
    """The branches of a run with their statuses, one a line; nothing for a run with one branch."""
    heads = [row for row in rows if row.is_branch_head]
    if len(heads) < 2:
        return
    for head in heads[-MAX_BRANCHES:]:
        yield "  " + _("branch %(name)s: %(status)s") % {
            "name": head.branch,
            "status": status_label(branch_status(head)),
        }
    if more := len(heads[:-MAX_BRANCHES]):
        yield "  " + ngettext("%(count)d older branch", "%(count)d older branches", more) % {"count": more}


def _step(row: Checkpoint) -> dict[str, Any]:
    """The step, where the engine counts steps, and the units of it with their statuses."""
    return {} if row.step is None else {"step": row.step, "turn": row.turn, "units": row.units}


def _parent_id(row: Checkpoint) -> str | None:
    """The recorded parent, even if it is not imported, else the inferred one."""
    if row.parent_checkpoint_id or row.parent is None:
        return row.parent_checkpoint_id or None
    return row.parent.checkpoint_id
