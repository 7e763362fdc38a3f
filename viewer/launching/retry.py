"""What of a job can be filled in again once it has ended: what was typed and is no secret."""

from collections.abc import Mapping
from typing import Any

from viewer.jobs.execution.event_rows import redactor_of
from viewer.jobs.execution.request import REPEATABLE_EDITS
from viewer.lineage.branch_names import MOST_CHARACTERS
from viewer.models import Job, Project
from viewer.models.jobs import EDITS


def kept_edits(request: Mapping[str, Any], project: Project | None) -> dict[str, dict[str, Any]]:
    """The edits of a request that hold no secret, in the parts and under the names that they have there."""
    hide = redactor_of(project)
    typed = {part: request.get(part) or {} for part in EDITS}
    return {
        part: {name: value for name, value in values.items() if hide({name: value}) == {name: value}}
        for part, values in typed.items()
    }


def edits_to_repeat(job: Job) -> dict[str, dict[str, Any]]:
    """The job's edits that are kept, by the parts of its request."""
    kept = job.request.get(REPEATABLE_EDITS) or {}
    return {part: dict(kept.get(part) or {}) for part in EDITS}


def edits_not_kept(job: Job) -> list[str]:
    """The names of what was typed for the job and may be a secret."""
    kept = edits_to_repeat(job)
    return [name for part in EDITS for name in (job.request.get(part) or {}) if name not in kept[part]]


def free_branch(name: str, taken: set[str]) -> str:
    """The name where it is free, else with the first free number behind it."""
    if name not in taken:
        return name
    # A name that was numbered so before is counted on; a year stays.
    stem, _dash, number = name.rpartition("-")
    base = stem if stem in taken and number.isdigit() else name
    numbers = range(2, len(taken) + 3)
    free = (f"{base[: MOST_CHARACTERS - 8]}-{number}" for number in numbers)
    return next(one for one in free if one not in taken)
