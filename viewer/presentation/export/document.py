"""The contents of an export of a run, as plain values."""

from collections.abc import Sequence
from typing import Any

from django.utils import timezone

from viewer.engines import engine_of
from viewer.engines.comparable import Section
from viewer.engines.protocol import Engine
from viewer.importing import bodies_of, branch_status
from viewer.models import Checkpoint, Run
from viewer.presentation.run.edits import edited_checkpoints
from viewer.presentation.run.triggers import trigger_label
from viewer.prices import price_runs

# Inputs and outputs are exported of this many branches, those written last.
MAX_BRANCHES = 100
SECTIONS = (Section.INPUTS, Section.STATE, Section.OUTPUTS, Section.MESSAGES)


def run_document(run: Run) -> dict[str, Any]:
    """A run with its branches, checkpoints, inputs, outputs and cost. Times are ISO 8601."""
    if not run.is_priced:
        price_runs(run.location)
        run.refresh_from_db()
    rows = list(run.checkpoints.select_related("parent").order_by("row"))
    heads = list(
        run.checkpoints.filter(is_branch_head=True).select_related("location", "stored_copy").order_by("-row")
    )
    return {
        "forkline": 1,
        "exported_at": timezone.now().isoformat(timespec="seconds"),
        "run": _run(run),
        "branches": _branches(run, heads[:MAX_BRANCHES]),
        "branches_left_out": max(0, len(heads) - MAX_BRANCHES),
        "checkpoints": _checkpoints(run, rows),
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "id": run.key,
        "name": str(run),
        "kind": run.entity,
        "engine": engine_of(run.location).title,
        "location": run.location.name,
        "started": _time(run.first_at),
        "last_checkpoint": _time(run.last_at),
        "seconds_worked": run.seconds,
        "status": run.status,
        "tokens": run.tokens,
        "tokens_in": run.tokens_in,
        "tokens_out": run.tokens_out,
        "cost_in_dollars": run.cost,
        "calls_without_price": run.unpriced_calls,
        "models": [
            {"model": model, "calls": calls, "tokens": tokens} for model, calls, tokens, *_ in run.usage
        ],
    }


def _branches(run: Run, heads: Sequence[Checkpoint]) -> list[dict[str, Any]]:
    """Each branch with the contents of its newest checkpoint; without sections if that cannot be read."""
    engine = engine_of(run.location)
    bodies = {row.pk: body for row, body in bodies_of(run.location, heads)}
    return [
        {
            "name": head.branch,
            "status": branch_status(head),
            "newest_checkpoint": head.checkpoint_id,
            "progress": head.progress,
            **_sections(engine, bodies.get(head.pk)),
        }
        for head in heads
    ]


def _sections(engine: Engine[Any], body: dict[str, Any] | None) -> dict[str, Any]:
    # A body beyond the limits of pages is empty.
    if not body:
        return {"is_readable": False}
    contents = engine.contents_of(body)
    parts = list(engine.comparable(contents))
    return {
        "is_readable": True,
        "unreadable": list(contents.unreadable),
        **{
            section.value: [
                {"name": part.name, "value": part.value}
                for part in parts
                if part.section == section and not part.trait
            ]
            for section in SECTIONS
        },
    }


def _checkpoints(run: Run, rows: Sequence[Checkpoint]) -> list[dict[str, Any]]:
    edited = edited_checkpoints(run)
    return [
        {
            "id": row.checkpoint_id,
            "parent": row.parent.checkpoint_id if row.parent else None,
            "parent_link": row.parent_link,
            "branch": row.branch,
            "created": _time(row.created_at),
            "trigger": row.trigger,
            "label": trigger_label(row.trigger),
            "subject": row.subject,
            "units": [name for name, _status in row.units],
            "units_done": row.units_done,
            "units_total": row.units_total,
            "tokens": row.tokens,
            "is_edited": row.pk in edited,
            "state": row.state,
        }
        for row in rows
    ]


def _time(at: Any) -> str | None:
    return at.isoformat() if at else None
