"""The checkpoints that start with edits: the first ones that a fork wrote."""

from typing import Any

from django.utils.translation import gettext

from viewer.models import Job, Run


def edited_checkpoints(run: Run) -> dict[int, str]:
    """Return a label of the edits, by the key of the first checkpoint written after them."""
    edited: dict[tuple[int | None, Any], list[str]] = {
        (job.checkpoint_id, job.request.get("branch")): names
        for job in run.jobs.only("checkpoint_id", "request", "plan")
        if job.checkpoint_id and (names := _edited_names(job))
    }
    if not edited:
        return {}
    first = run.checkpoints.filter(parent__in=[parent for parent, _ in edited]).order_by("-row")
    found = ((row.pk, edited.get((row.parent_id, row.branch))) for row in first.only("parent_id", "branch"))
    return {pk: gettext("edited: %(names)s") % {"names": ", ".join(names)} for pk, names in found if names}


def _edited_names(job: Job) -> list[str]:
    request: dict[str, Any] = job.request
    titles = {str(step.get("unit")): str(step.get("title")) for step in job.plan if isinstance(step, dict)}
    names = [titles.get(unit, unit) for unit in request.get("outputs") or {}]
    names += list(request.get("inputs") or {})
    names += [gettext("state")] if request.get("state") else []
    return names + ([gettext("model")] if (request.get("options") or {}).get("models") else [])
