"""The fields that a form would have sent for a job's request, to retry it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from viewer.forms.checkpointing import EVENTS, MOST
from viewer.forms.fork import ForkForm, MoreValues, ValueGroup
from viewer.forms.limits import NAMES
from viewer.forms.models import ModelChoices
from viewer.forms.new_run import NewRunForm
from viewer.launching.retry import edits_not_kept, edits_to_repeat, free_branch
from viewer.launching.values import as_json, kind_of, text_of
from viewer.models import Job


@dataclass(frozen=True, slots=True)
class Retry:
    """``sent`` and ``chosen`` are the fields; ``missing`` names the edits that were not stored."""

    job: Job
    sent: dict[str, str]
    chosen: dict[str, list[str]]
    missing: list[str]


def retry_of_fork(form: ForkForm, job: Job, taken: set[str]) -> Retry:
    """The retry of a fork or resume. ``form`` is its form as first shown, ``taken`` are branches."""
    kept = edits_to_repeat(job)
    sent = _values(form.inputs, kept["inputs"]) | _values(form.state, kept["state"])
    for output in form.outputs:
        edit = kept["outputs"].get(output.unit)
        if edit:
            sent[output.html_name] = as_json(edit["json"]) if "json" in edit else str(edit.get("text", ""))
    sent |= {"branch": free_branch(job.branch, taken), "entry_point": job.request.get("entry_point", "")}
    sent |= _options(job, form.models)
    chosen = {
        "again": [step["unit"] for step in job.plan if step.get("reason") == "asked"],
        "keep": [step["unit"] for step in job.plan if step.get("reason") == "held"],
        EVENTS: _events(job),
    }
    return Retry(job, sent, chosen, edits_not_kept(job))


def retry_of_run(form: NewRunForm, job: Job) -> Retry:
    """The retry of a new run. ``form`` is its form as first shown."""
    sent = _values(form.inputs, edits_to_repeat(job)["inputs"], all_of=True) | _options(job, form.models)
    sent["location"] = str(job.location.uid)
    return Retry(job, sent, {EVENTS: _events(job)}, edits_not_kept(job))


def _values(group: ValueGroup | None, typed: Mapping[str, Any], all_of: bool = False) -> dict[str, str]:
    """Each value in its field, as JSON if it has another type, else in the field of further values.

    ``all_of``: whether missing values are sent as empty fields.
    """
    if group is None:
        return {}
    sent: dict[str, str] = {}
    for one in group.fields:
        if one.name not in typed:
            sent |= {one.html_name: ""} if all_of and one.name not in typed and one.is_missing else {}
        elif kind_of(typed[one.name]) == one.kind or not one.json_name:
            sent[one.html_name] = text_of(typed[one.name], one.kind)
        else:
            sent |= {one.html_name: one.text, one.json_name: as_json(typed[one.name])}
    return sent | _others(group.more, typed, [one.name for one in group.fields])


def _others(more: MoreValues | None, typed: Mapping[str, Any], fields: Iterable[str]) -> dict[str, str]:
    others = {name: value for name, value in typed.items() if name not in set(fields)}
    return {more.html_name: as_json(others)} if more and others else {}


def _options(job: Job, models: ModelChoices) -> dict[str, str]:
    """Models, the prompt cache, checkpoints and limits."""
    options = job.request.get("options") or {}
    chosen = options.get("models") or {}
    sent = {one.html_name: chosen[one.role] for one in models.fields if one.role in chosen}
    sent["preload"] = options.get("cache_warmup", "")
    most = (options.get("checkpoints") or {}).get("most")
    sent |= {MOST: str(most)} if most else {}
    for measure, value in job.limits.items():
        if measure in NAMES:
            sent[NAMES[measure]] = f"{value / 60 if measure == 'seconds' else value:g}"
    return sent


def _events(job: Job) -> list[str]:
    return list(((job.request.get("options") or {}).get("checkpoints") or {}).get("events") or [])
