"""A job as something to do again, without secrets: as a command, and as a script for its engine."""

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from viewer.engines import engine_of
from viewer.engines.plan import Reason
from viewer.engines.recorded_calls import ModelChoice
from viewer.engines.reproduction import Reproduction
from viewer.launching.calls import model_choice_of
from viewer.launching.options import CODE, RECORDED
from viewer.launching.requests import edits_not_kept, edits_to_repeat, models_to_repeat
from viewer.models import Job

COMMAND = "forkline"


def reproduction_of(job: Job) -> Reproduction | None:
    """The job without its secrets; None if its checkpoint was removed or nothing can repeat it."""
    checkpoint = job.checkpoint
    if job.kind not in (Job.Kind.FORK, Job.Kind.RESUME, Job.Kind.RUN):
        return None
    if checkpoint is None and job.kind != Job.Kind.RUN:
        return None
    kept, options = edits_to_repeat(job), job.request.get("options") or {}
    return Reproduction(
        kind=str(job.kind),
        entity=str(job.request.get("entity") or (checkpoint.entity if checkpoint else "")),
        folder=job.project.folder if job.project else str(Path(job.location.path).parent),
        entry_point=str(job.request.get("entry_point") or ""),
        location=job.location.path,
        store_kind=job.location.store_kind,
        source=checkpoint.source if checkpoint else "",
        run_key=checkpoint.run.key if checkpoint else str(options.get("thread") or ""),
        checkpoint_id=checkpoint.checkpoint_id if checkpoint else "",
        branch=job.branch,
        inputs=kept["inputs"],
        outputs={
            unit: edit["json"] if "json" in edit else edit.get("text", "")
            for unit, edit in kept["outputs"].items()
        },
        state=kept["state"],
        again=tuple(step["unit"] for step in job.plan if step.get("action") == "again"),
        starts_over=any(step.get("reason") == Reason.STARTS_OVER for step in job.plan),
        answers=kept["answers"],
        settings={name: kept[name] for name in ("configurable", "context") if kept[name]},
        as_node=str(options.get("as_node") or ""),
        replace=tuple(options.get("replace") or ()),
        missing=tuple(edits_not_kept(job)),
    )


def script_of(job: Job, what: Reproduction) -> str:
    """A Python script that repeats the job with its engine's own interface."""
    return str(engine_of(job.location).script(what))


def command_of(job: Job, what: Reproduction) -> str:
    """The ``forkline`` command that repeats the job, on one line.

    It names no branch: a fork gets a new one, since the name that the job had is taken.
    """
    target = what.location if job.checkpoint is None else job.checkpoint.target
    words = [COMMAND, what.kind, target, *_edits(what), *_choices(job), *_place(job)]
    return shlex.join(words)


def _edits(what: Reproduction) -> Iterator[str]:
    for name, value in what.inputs.items():
        yield from ("--input", f"{name}={_json(value)}")
    for unit, value in what.outputs.items():
        yield from ("--output", f"{unit}={value if isinstance(value, str) else _json(value)}")
    if what.state:
        yield from ("--state", _json(dict(what.state)))
    if what.as_node:
        yield from ("--as-node", what.as_node)
    for name in what.replace:
        yield from ("--replace", name)
    for group, values in what.settings.items():
        for name, value in values.items():
            yield from (f"--{group}", f"{name}={_json(value)}")
    for name, value in what.answers.items():
        yield from ("--answer", f"{name}={_json(value)}" if name else _json(value))


def _choices(job: Job) -> Iterator[str]:
    """The options of steps, models, tools, breakpoints and the thread."""
    options: Mapping[str, Any] = job.request.get("options") or {}
    for option, reason in (("--again", Reason.REQUESTED), ("--keep", Reason.HELD)):
        for step in job.plan:
            if step.get("reason") == reason:
                yield from (option, str(step["unit"]))
    for role, model in models_to_repeat(job).items():
        yield from ("--model", model if role == "*" else f"{role}={model}")
    yield from _calls(options)
    for name, nodes in (("--stop-before", "stop_before"), ("--stop-after", "stop_after")):
        for node in options.get(nodes) or ():
            yield from (name, str(node))
    if job.kind == Job.Kind.RUN and options.get("thread"):
        yield from ("--thread", str(options["thread"]))


def _calls(options: Mapping[str, Any]) -> Iterator[str]:
    """What happens when it calls tools and models."""
    tools = options.get("tools") or {}
    for tool, choice in (tools.get("choices") or {}).items():
        yield from ("--tool", f"{tool}={choice}")
    if tools.get("dry_run"):
        yield "--dry-run"
    if (calls := model_choice_of(options)) != ModelChoice.CALL:
        yield from ("--model-calls", calls.value)


def _place(job: Job) -> Iterator[str]:
    """The location of another host, or the project."""
    if job.is_on_other_host:
        yield from ("--on", f"{job.location.host.name}:{job.location.path}")
    elif job.project:
        yield from ("--project", job.project.folder)
        if job.project.interpreter:
            yield from ("--python", job.project.interpreter)
    if entry_point := job.request.get("entry_point"):
        yield from ("--entrypoint", str(entry_point))
    if job.commit:
        yield from (f"--{CODE.name}", RECORDED)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
