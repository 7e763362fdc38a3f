"""What a child is asked to do, made from what a person chose."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from viewer.engines.plan import Edits, Step
from viewer.importing import unredacted_source
from viewer.jobs.execution.protected_paths import protected_paths
from viewer.jobs.spool import (
    STORED,
    CheckpointSource,
    LocationTarget,
    Options,
    OutputEdit,
    Permissions,
    Request,
    StepRequest,
)
from viewer.models import Checkpoint, Job, Project
from viewer.redaction.marker import MARKER

# The key of a stored request that holds the edits without secrets, for a retry. No runner gets it.
REPEATABLE_EDITS = "kept"
# What the engine calls the branch of a run that begins.
FIRST_BRANCH = "main"


def request_for(
    checkpoint: Checkpoint,
    kind: Job.Kind,
    branch: str,
    edits: Edits,
    steps: Sequence[Step],
    entry_point: str = "",
    options: Options | None = None,
) -> Request:
    """The request of a job that is about to be made; ``request_of`` fills ``job``, ``folder`` and the like.

    ``edits.outputs`` holds a text for each unit, or an ``OutputEdit`` where the output is JSON.
    """
    location = checkpoint.location
    place = CheckpointSource(id=checkpoint.checkpoint_id, source=checkpoint.source)
    if checkpoint.state == Checkpoint.State.PRUNED:
        place["stored"] = True
    return Request(
        job="",
        kind="fork" if kind == Job.Kind.FORK else "resume",
        checkpoint=place,
        location=LocationTarget(
            path=location.path, provider="sqlite" if location.provider == location.Provider.SQLITE else "json"
        ),
        entity=checkpoint.entity,
        name=checkpoint.name,
        branch=branch if kind == Job.Kind.FORK else checkpoint.branch,
        inputs=dict(edits.inputs),
        outputs={unit: output_edit(output) for unit, output in edits.outputs.items()},
        state=None if edits.state is None else dict(edits.state),
        steps=[StepRequest(task=step.unit, action=step.action.value) for step in steps],
        folder="",
        entry_point=entry_point,
        options={} if options is None else options,
    )


def request_for_run(
    place: LocationTarget,
    entity: str,
    name: str,
    entry_point: str,
    inputs: Mapping[str, Any],
    options: Options | None = None,
) -> Request:
    """The request of a new run's job; ``inputs`` are all that it is started with."""
    return Request(
        job="",
        kind="run",
        checkpoint=CheckpointSource(id="", source=""),
        location=place,
        entity=entity,
        name=name,
        branch=FIRST_BRANCH,
        inputs=dict(inputs),
        outputs={},
        state=None,
        steps=[],
        folder="",
        entry_point=entry_point,
        options={} if options is None else options,
    )


def request_of(job: Job) -> Request:
    """The row's request as its child reads it: with the job's id, its project's folder, and its own copy."""
    folder = job.project.folder if job.project else ""
    asked = {name: value for name, value in job.request.items() if name != REPEATABLE_EDITS}
    request = cast(Request, {**asked, "job": str(job.id), "folder": folder})
    if job.project:
        request = cast(Request, {**request, **permissions_of(job.project)})
    if job.limits:
        request["options"] = {**request.get("options", {}), "limits": job.limits}
    if job.checkpoint and MARKER in job.checkpoint.source_key and not is_stored(request):
        # The row's names hide a secret: only the location has the real ones.
        real = unredacted_source(job.checkpoint)
        request["checkpoint"] = {**request["checkpoint"], "id": real.checkpoint_id, "source": real.source}
        if request["kind"] == "resume":
            request["branch"] = real.branch or request["branch"]
    if is_stored(request):
        request["checkpoint"] = {**request["checkpoint"], "source": str(job.folder / STORED)}
    return request


def permissions_of(project: Project) -> Permissions:
    """What a child of this project is allowed at this moment."""
    return Permissions(
        protected=protected_paths(project),
        accepted_effects=sorted(project.accepted_effects.keys()),
        entry_points=list(project.entry_points),
    )


def is_stored(request: Mapping[str, Any]) -> bool:
    """Whether the run starts from the copy that is kept here, as its checkpoint was pruned."""
    return bool(request.get("checkpoint", {}).get("stored"))


def output_edit(output: str | Mapping[str, Any]) -> OutputEdit:
    """A text as an edit of that text; what is an edit already, as it is."""
    if isinstance(output, str):
        return OutputEdit(text=output)
    return OutputEdit(json=output["json"]) if "json" in output else OutputEdit(text=str(output["text"]))
