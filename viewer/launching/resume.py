"""Resumes a checkpoint: runs on from it on its own branch."""

from viewer.launching.preview.launch_preview import LaunchPreview, preview_launch
from viewer.launching.requests import ResumeRequest
from viewer.launching.start import start
from viewer.models import Job


def preview_resume(request: ResumeRequest) -> LaunchPreview:
    """The plan of the resume, what refuses it, and its warnings."""
    return preview_launch(request)


def resume(request: ResumeRequest) -> Job:
    """Queue the resume, once. Raises LaunchRefused, also if nothing is left to run."""
    return start(preview_resume(request))
