"""Forks a checkpoint: continues from it on a new branch, with a person's edits."""

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.launching.preview.launch_preview import LaunchPreview, preview_launch
from viewer.launching.preview.next_units import ask_next
from viewer.launching.refusals import Code, LaunchRefused, Refusal, branch_refusals
from viewer.launching.requests.requests import ForkRequest
from viewer.launching.start import start
from viewer.messages.message import UserMessage
from viewer.messages.translation import translate
from viewer.models import Job


def preview_fork(request: ForkRequest) -> LaunchPreview:
    """The plan of the fork, the reasons why it cannot start, and its warnings."""
    preview = preview_launch(request)
    preview.checks += branch_refusals(request.branch, request.checkpoint.location.taken_branches)
    return preview


def fork(request: ForkRequest) -> Job:
    """Queue the fork, once per request key. Raises LaunchRefused."""
    preview = preview_fork(request)
    return start(preview, lambda: _refuse_without_next(preview))


def _refuse_without_next(preview: LaunchPreview) -> None:
    """Ask the project's code what runs, if the checkpoint does not show it. Raises LaunchRefused for nothing.

    An error is left to the run, which has the project's keys, and checks again.
    """
    request = preview.request
    edits, kind = request.edits, kind_of(engine_of(request.contents), request.contents.kind)
    if preview.plan.steps or not kind.adds_to_state or not (edits.state or edits.as_node):
        return
    asked = [one for one in ask_next(request).units if one.unit == edits.as_node]
    if asked and not asked[0].error and not asked[0].following:
        raise LaunchRefused([Refusal(Code.PLAN, translate(UserMessage("langgraph.nothing_follows")))])
