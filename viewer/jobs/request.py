"""What a child is asked to do, made from what a person chose."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from viewer.jobs.plan import Edits, Step
from viewer.jobs.spool import CheckpointSource, LocationTarget, OutputEdit, Request, StepRequest
from viewer.models import Checkpoint, Job


def request_for(
    checkpoint: Checkpoint,
    kind: Job.Kind,
    branch: str,
    edits: Edits,
    steps: Sequence[Step],
    entry_point: str = "",
) -> Request:
    """The request of a job that is about to be made; ``job`` and ``folder`` are filled by ``request_of``.

    ``edits.outputs`` holds a text for each task, or an ``OutputEdit`` where the output is JSON.
    """
    location = checkpoint.location
    return Request(
        job="",
        kind="fork" if kind == Job.Kind.FORK else "resume",
        checkpoint=CheckpointSource(id=checkpoint.checkpoint_id, source=checkpoint.source),
        location=LocationTarget(
            path=location.path, provider="sqlite" if location.provider == location.Provider.SQLITE else "json"
        ),
        # plan_of has refused a checkpoint whose root is none of the three.
        entity=cast(Literal["crew", "flow", "agent"], checkpoint.entity),
        name=checkpoint.name,
        branch=branch if kind == Job.Kind.FORK else checkpoint.branch,
        inputs=dict(edits.inputs),
        outputs={unit: output_edit(output) for unit, output in edits.outputs.items()},
        state=None if edits.state is None else dict(edits.state),
        steps=[StepRequest(task=step.unit, action=step.action.value) for step in steps],
        folder="",
        entry_point=entry_point,
    )


def request_of(job: Job) -> Request:
    """The row's request as its child reads it: with the job's id and its project's folder."""
    folder = job.project.folder if job.project else ""
    return cast(Request, {**job.request, "job": str(job.id), "folder": folder})


def output_edit(output: str | Mapping[str, Any]) -> OutputEdit:
    """A text as an edit of that text; what is an edit already, as it is."""
    if isinstance(output, str):
        return OutputEdit(text=output)
    return OutputEdit(json=output["json"]) if "json" in output else OutputEdit(text=str(output["text"]))
