"""Requests: what a runner is asked to do."""

from collections.abc import Mapping
from typing import Any, cast

from viewer.engines import engine_of
from viewer.engines.runner_request import (
    Permissions,
    Request,
)
from viewer.host.jobs.environment import protected_paths
from viewer.host.jobs.files import storage_of
from viewer.host.locations.sources import unredacted_source
from viewer.models import Checkpoint, Job, Project
from viewer.records.bodies import stored_contents
from viewer.records.runner_requests import REPEATABLE_EDITS
from viewer.redaction import MARKER


def request_of(job: Job) -> Request:
    """The stored request, completed for the runner: job id, project folder, permissions, limits, real ids."""
    folder = job.project.folder if job.project else ""
    stored = {name: value for name, value in job.request.items() if name != REPEATABLE_EDITS}
    request = cast(Request, {**stored, "job": str(job.id), "folder": folder})
    if job.project:
        request = cast(Request, {**request, **permissions_of(job.project)})
    if job.limits:
        request["options"] = {**request.get("options", {}), "limits": job.limits}
    if job.checkpoint and MARKER in job.checkpoint.source_key and not is_stored(request):
        # The row's id or path was redacted. Only the location has the real one.
        real = unredacted_source(job.checkpoint)
        request["checkpoint"] = {**request["checkpoint"], "id": real.checkpoint_id, "source": real.source}
        if request["kind"] == "resume":
            request["branch"] = real.branch or request["branch"]
    if job.kind == Job.Kind.SCORE and job.checkpoint:
        request["contents"] = _contents_to_score(job.checkpoint)
        return request
    if is_stored(request):
        request["checkpoint"] = {**request["checkpoint"], "source": storage_of(job).stored_copy}
    return request


def _contents_to_score(checkpoint: Checkpoint) -> dict[str, Any]:
    """The redacted contents as plain values, as ``forkline info --json`` prints them."""
    contents = stored_contents(checkpoint)
    return {
        "id": checkpoint.checkpoint_id,
        "branch": checkpoint.recorded_branch,
        "trigger": checkpoint.trigger,
        "tokens": checkpoint.tokens,
        **engine_of(contents).info(contents),
    }


def permissions_of(project: Project) -> Permissions:
    """What a runner of this project is currently allowed to do."""
    return Permissions(
        protected=protected_paths(project),
        accepted_effects=sorted(project.accepted_effects.keys()),
        entry_points=list(project.entry_points),
    )


def is_stored(request: Mapping[str, Any]) -> bool:
    """Whether the run starts from the stored copy of a pruned checkpoint."""
    return bool(request.get("checkpoint", {}).get("stored"))
