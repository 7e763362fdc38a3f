"""Forks a checkpoint: continues from it on a new branch, with a person's edits."""

from viewer.launching.preview.launch_preview import LaunchPreview, preview_launch
from viewer.launching.refusals import branch_refusals
from viewer.launching.requests.requests import ForkRequest
from viewer.launching.start import start
from viewer.models import Job


def preview_fork(request: ForkRequest) -> LaunchPreview:
    """The plan of the fork, the reasons why it cannot start, and its warnings."""
    preview = preview_launch(request)
    preview.checks += branch_refusals(request.branch, request.checkpoint.location.taken_branches)
    return preview


def fork(request: ForkRequest) -> Job:
    """Queue the fork, once per request key. Raises LaunchRefused."""
    return start(preview_fork(request))
