"""The checkpoints that start with edits: the first ones that a fork wrote."""

import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext

from viewer.models import Job, Run

# The key of a request that keeps the edits without secrets (viewer/jobs/execution/starting/request.py).
KEPT_EDITS = "kept"
# Maximum characters of a value in a row.
MAX_VALUE = 40


def edited_checkpoints(run: Run) -> dict[int, str]:
    """Return a label of the edits, by the key of the first checkpoint written after them."""
    edited: dict[tuple[int | None, Any], list[str]] = {}
    # The known inputs of each branch, without secrets.
    inputs: dict[str, dict[str, str]] = {}
    jobs = run.jobs.select_related("checkpoint").only(
        "checkpoint__recorded_branch", "branch", "request", "plan"
    )
    for job in jobs.order_by("created_at"):
        if job.checkpoint is None:
            continue
        before = inputs.get(job.checkpoint.recorded_branch) or dict(run.inputs)
        kept = (job.request.get(KEPT_EDITS) or {}).get("inputs") or {}
        after = {name: _short(value) for name, value in kept.items()}
        if names := _edited_names(job, before, after):
            edited[job.checkpoint_id, job.request.get("branch")] = names
        inputs[job.branch] = before | after
    if not edited:
        return {}
    first = run.checkpoints.filter(parent__in=[parent for parent, _ in edited]).order_by("-row")
    found = (
        (row.pk, edited.get((row.parent_id, row.recorded_branch)))
        for row in first.only("parent_id", "recorded_branch")
    )
    return {pk: gettext("edited: %(names)s") % {"names": ", ".join(names)} for pk, names in found if names}


def _edited_names(job: Job, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the edits of a job: ``year 2026 → 2032`` for an input with known values, else its name."""
    request: dict[str, Any] = job.request
    titles = {str(step.get("unit")): str(step.get("title")) for step in job.plan if isinstance(step, dict)}
    names = [titles.get(unit, unit) for unit in request.get("outputs") or {}]
    for name in request.get("inputs") or {}:
        change = (f"{_short(before[name])} → " if before.get(name) else "→ ") + after.get(name, "")
        names.append(f"{name} {change}" if name in after else name)
    names += [gettext("state")] if request.get("state") else []
    return names + ([gettext("model")] if (request.get("options") or {}).get("models") else [])


def _short(value: Any) -> str:
    """Return a value on one line, cut to MAX_VALUE characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    line = " ".join(text[: 4 * MAX_VALUE].split())
    return line if len(line) <= MAX_VALUE else f"{line[: MAX_VALUE - 1]}…"
