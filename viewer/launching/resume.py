"""Resumes a checkpoint: continues from it on its own branch."""

from django.utils.translation import gettext as _

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.launching.preview.launch_preview import LaunchPreview, preview_launch
from viewer.launching.refusals import Code, Refusal
from viewer.launching.requests.requests import ResumeRequest
from viewer.launching.start import start
from viewer.models import Job


def preview_resume(request: ResumeRequest) -> LaunchPreview:
    """The plan of the resume, the reasons why it cannot start, and its warnings."""
    preview = preview_launch(request)
    checkpoint, kind = request.checkpoint, kind_of(engine_of(request.contents), request.contents.kind)
    if kind.resumes_last_only and not checkpoint.is_last:
        message = _("Only the last checkpoint of a thread can be resumed. Fork this one instead.")
        preview.checks.append(Refusal(Code.CHECKPOINT, message))
    return preview


def resume(request: ResumeRequest) -> Job:
    """Queue the resume, once per request key. Raises LaunchRefused, for example if nothing is left to run."""
    return start(preview_resume(request))
