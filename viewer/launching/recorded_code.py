"""The code that a checkpoint was written with, and whether a launch can run its commit."""

from django.utils.translation import gettext as _

from viewer.host_requests import CheckCommit, HostAway, JobRefused, ask
from viewer.launching.refusals import Code, Refusal
from viewer.launching.requests import CheckpointRequest
from viewer.messages.translation import translate
from viewer.models import RecordedCode


def commit_of(request: CheckpointRequest) -> str:
    """Return the commit that this request runs; empty for the code in the project's folder."""
    if not request.uses_recorded_code:
        return ""
    code = RecordedCode.of(request.checkpoint, request.project or request.checkpoint.location.project)
    return code.commit if code else ""


def commit_refusals(request: CheckpointRequest) -> list[Refusal]:
    """Why the recorded commit of this request cannot run."""
    if not request.uses_recorded_code or request.project is None:
        return []
    commit = commit_of(request)
    if not commit:
        message = _(
            "No commit was recorded for this checkpoint: only a checkpoint that a job of this project wrote, "
            "in a git repository, has one."
        )
        return [Refusal(Code.COMMIT, message, "code", _("Code"))]
    try:
        ask(CheckCommit(request.project.pk, commit))
    except HostAway:
        # The host checks it when it is back.
        return []
    except JobRefused as refused:
        return [Refusal(Code.COMMIT, translate(refused), "code", _("Code"))]
    return []
