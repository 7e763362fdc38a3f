"""Forks a checkpoint: runs on from it, with a person's edits, on a new branch."""

from viewer.launching.preview.launch_preview import LaunchPreview, preview_launch
from viewer.launching.refusals import branch_refusals
from viewer.launching.requests import ForkRequest
from viewer.launching.start import start
from viewer.models import Job


def preview_fork(request: ForkRequest) -> LaunchPreview:
    """The plan of the fork, what refuses it, and its warnings."""
    preview = preview_launch(request)
    preview.checks += branch_refusals(request.branch, request.checkpoint.location.taken_branches)
    return preview


def fork(request: ForkRequest) -> Job:
    """Queue the fork, once. Raises LaunchRefused."""
    return start(preview_fork(request))
