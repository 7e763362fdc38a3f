"""The parts of an ended job's request that a form may show again: everything that is not a secret."""

from collections.abc import Mapping
from typing import Any

from viewer.jobs.execution.following.event_rows import redactor_of
from viewer.jobs.execution.starting.request import REPEATABLE_EDITS
from viewer.models import Job, Project
from viewer.models.jobs.job import EDITS


def kept_edits(request: Mapping[str, Any], project: Project | None) -> dict[str, dict[str, Any]]:
    """The edits of a request that contain no secret, by part and name as in the request."""
    hide = redactor_of(project)
    typed = {part: request.get(part) or {} for part in EDITS}
    return {
        part: {name: value for name, value in values.items() if hide({name: value}) == {name: value}}
        for part, values in typed.items()
    }


def edits_to_repeat(job: Job) -> dict[str, dict[str, Any]]:
    """The job's stored edits, by part of its request."""
    kept = job.request.get(REPEATABLE_EDITS) or {}
    return {part: dict(kept.get(part) or {}) for part in EDITS}


def edits_not_kept(job: Job) -> list[str]:
    """The names of the job's edits that were not stored, as they may be secrets."""
    kept = edits_to_repeat(job)
    return [name for part in EDITS for name in (job.request.get(part) or {}) if name not in kept[part]]
