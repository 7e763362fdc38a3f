"""The fields that a form would have sent for a job's request, to retry it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.datastructures import MultiValueDict

from viewer.launching.calls import model_choice_of
from viewer.launching.options import RECORDED
from viewer.launching.requests import edits_not_kept, edits_to_repeat, models_to_repeat
from viewer.launching.values import as_json, text_of
from viewer.launching.values import kind_of as value_kind_of
from viewer.models import Job
from viewer.records.lineage.branch_names import free_name
from viewer.web.forms.fork import OutputsForm, ValuesForm, output_name
from viewer.web.forms.options import (
    CACHE_WARMUP,
    EVENTS,
    MAX_CHECKPOINTS,
    TOOL_FIELD,
    ModelsForm,
    limit_texts,
    name_of,
)


@dataclass(frozen=True, slots=True)
class Retry:
    """``data`` are the fields; ``missing`` names the edits that were not stored."""

    job: Job
    data: MultiValueDict[str, str]
    missing: list[str]


def retry_of_fork(
    job: Job,
    values: Iterable[ValuesForm],
    outputs: OutputsForm,
    models: ModelsForm,
    taken: set[str],
    conversations: Collection[str] = (),
) -> Retry:
    """The retry of a fork or resume. The forms are as first shown, ``taken`` are branches.

    Edits of ``conversations`` have to be typed again: a request holds only what they write.
    """
    kept = edits_to_repeat(job)
    options = job.request.get("options") or {}
    typed_again = [name for name in kept["state"] if name in conversations]
    kept["state"] = {name: value for name, value in kept["state"].items() if name not in conversations}
    sent = {f"mode:{name}": "add" for name in kept["state"] if name not in (options.get("replace") or ())}
    sent["as_node"] = str(options.get("as_node") or "")
    sent["into"] = str(options.get("into") or "")
    sent["code"] = RECORDED if options.get("commit") else ""
    sent |= edit_fields(kept, values, outputs)
    sent |= {"branch": free_name(job.branch, taken), "entry_point": job.request.get("entry_point", "")}
    data = _data(job, sent | _options(job, models))
    data.setlist("again", [step["unit"] for step in job.plan if step.get("reason") == "requested"])
    data.setlist("keep", [step["unit"] for step in job.plan if step.get("reason") == "held"])
    return Retry(job, data, [*edits_not_kept(job), *typed_again])


def edit_fields(
    edits: Mapping[str, Mapping[str, Any]], values: Iterable[ValuesForm], outputs: OutputsForm
) -> dict[str, str]:
    """The texts of these edits, by part and name as in a request. Those without a field are left out."""
    sent: dict[str, str] = {}
    for form in values:
        sent |= _values(form, edits.get("inputs" if form.group == "input" else form.group) or {})
    for unit, edit in (edits.get("outputs") or {}).items():
        if output_name(unit) in outputs.fields:
            text = as_json(edit["json"]) if "json" in edit else str(edit.get("text", ""))
            sent[output_name(unit)] = text
    return sent


def retry_of_run(job: Job, inputs: ValuesForm, models: ModelsForm) -> Retry:
    """The retry of a new run. The forms are as first shown."""
    sent = _values(inputs, edits_to_repeat(job)["inputs"], all_of=True) | _options(job, models)
    return Retry(job, _data(job, sent | {"location": str(job.location.uid)}), edits_not_kept(job))


def _values(form: ValuesForm, typed: Mapping[str, Any], all_of: bool = False) -> dict[str, str]:
    """Each value in its field, as JSON if it has another type, else in the field of further values.

    ``all_of``: whether missing values are sent as empty fields.
    """
    sent: dict[str, str] = {}
    fields = form.value_fields
    for name, one in fields.items():
        if one.name not in typed:
            sent |= {name: ""} if all_of and one.is_missing else {}
        elif value_kind_of(typed[one.name]) == one.kind or not one.json_name:
            sent[name] = text_of(typed[one.name], one.kind)
        else:
            sent |= {name: one.stored_text, one.json_name: as_json(typed[one.name])}
    named = {one.name for one in fields.values()}
    others = {name: value for name, value in typed.items() if name not in named}
    return sent | ({form.more_name: as_json(others)} if others and form.more_name in form.fields else {})


def _options(job: Job, models: ModelsForm) -> dict[str, str]:
    """Models, the prompt cache, checkpoints and limits."""
    options = job.request.get("options") or {}
    chosen = models_to_repeat(job)
    sent = {name_of(role): model for role, model in chosen.items() if name_of(role) in models.fields}
    sent[CACHE_WARMUP] = options.get("cache_warmup", "")
    tools = options.get("tools") or {}
    sent |= {f"{TOOL_FIELD}{name}": choice for name, choice in (tools.get("choices") or {}).items()}
    sent |= {"dry_run": "1"} if tools.get("dry_run") else {}
    sent |= {"model_calls": model_choice_of(options).value}
    latest = (options.get("checkpoints") or {}).get("max_checkpoints")
    return sent | ({MAX_CHECKPOINTS: str(latest)} if latest else {}) | limit_texts(job.limits)


def _data(job: Job, sent: Mapping[str, str]) -> MultiValueDict[str, str]:
    """The texts as a form sends them, with the events that write checkpoints."""
    data: MultiValueDict[str, str] = MultiValueDict({name: [text] for name, text in sent.items()})
    checkpoints = (job.request.get("options") or {}).get("checkpoints") or {}
    for name in ("stop_before", "stop_after"):
        data.setlist(name, list((job.request.get("options") or {}).get(name) or []))
    data.setlist(EVENTS, list(checkpoints.get("events") or []))
    return data
