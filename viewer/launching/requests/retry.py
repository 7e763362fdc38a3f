"""The parts of an ended job's request that a form may show again: everything that is not a secret."""

from collections.abc import Mapping
from typing import Any

from viewer.jobs.execution.following.event_rows import redactor_of
from viewer.jobs.execution.starting.request import REPEATABLE_EDITS
from viewer.lineage.branch_names import MAX_CHARACTERS
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


def free_branch(name: str, taken: set[str]) -> str:
    """The name if it is free, else the name with the first free number appended."""
    if name not in taken:
        return name
    # Count on from a number that was appended before; a year in the name is not one.
    stem, _dash, number = name.rpartition("-")
    base = stem if stem in taken and number.isdigit() else name
    numbers = range(2, len(taken) + 3)
    free = (f"{base[: MAX_CHARACTERS - 8]}-{number}" for number in numbers)
    return next(one for one in free if one not in taken)
