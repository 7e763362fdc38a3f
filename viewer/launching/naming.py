"""Names of forks and sweeps, and the request of an ended job for a retry, without secrets."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from viewer.engines import engine_of
from viewer.host_requests import Redact, ask
from viewer.launching.requests import ForkRequest, SweepRequest
from viewer.launching.values import as_json
from viewer.models import Job, Project
from viewer.models.jobs import EDITS
from viewer.records.lineage.branch_names import free_name, name_for
from viewer.records.runner_requests import REPEATABLE_EDITS
from viewer.redaction import MARKER


def redactor_of(project: Project | None) -> Callable[[Any], Any]:
    """Return a function that returns a JSON value without secrets, also those of this project."""
    return lambda value: ask(Redact(project.pk if project else None, [value]))[0]


# Names a fork for its edits, and the forks of a sweep for what differs. No secret is part of a name.


def fork_branch(request: ForkRequest) -> str:
    """Return a free branch name for the edits of a fork, such as ``year-2030`` or ``draft-edited``."""
    # A form that is sent twice names the same branch.
    own = Job.objects.filter(idempotency_key=request.key).values_list("branch", flat=True)
    return name_for(list(_changes(request)), request.checkpoint.location.taken_branches - set(own))


def sweep_prefix(request: SweepRequest) -> str:
    """Return a free name with which the branches of a sweep begin, such as ``year`` in ``year/2027``."""
    labels = {"output": "output", "model": "model", "answer": "answer"}
    names = [(labels.get(one.group) or one.key, "values") for one in request.dimensions]
    stem = name_for(names, ()).replace("-values", "") if names else "values"
    branches = request.checkpoint.location.taken_branches
    return free_name(stem, branches | {name.partition("/")[0] for name in branches})


def _changes(request: ForkRequest) -> Iterator[tuple[str, str]]:
    """What each edit changes, and its value; an empty one for what is long, structured or a secret."""
    edits, hide = request.edits, redactor_of(request.project)

    def shown(name: str, value: Any) -> str:
        hidden = hide({name: value})
        text = _text(hidden.get(name)) if isinstance(hidden, dict) else ""
        return "" if MARKER in text else text

    for value in edits.answers.values():
        text = shown("answer", value)
        yield ("", text) if text else ("answer", "")
    settings = {**request.settings.configurable, **request.settings.context}
    for name, value in {**edits.inputs, **(edits.state or {}), **settings}.items():
        yield name, shown(name, value)
    units = {one.unit: one.title for one in engine_of(request.contents).editable(request.contents).outputs}
    yield from ((units.get(unit, "output"), "") for unit in edits.outputs)
    yield from (("model", shown("model", model)) for model in dict.fromkeys(request.models.values()))
    yield from ((units.get(unit, unit), "again") for unit in sorted(edits.again) if not edits.outputs)


def _text(value: Any) -> str:
    """A short value as text; empty for another one."""
    if isinstance(value, str):
        return "" if "\n" in value else value
    return as_json(value) if isinstance(value, bool | int | float) else ""


# The parts of an ended job's request that a form may show again: everything that is not a secret.


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
