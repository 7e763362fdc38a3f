"""The page on which a person publishes a fork."""

from uuid import UUID, uuid4

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from viewer.launching.publish import NEW_THREAD, SCRATCH, preview_publish, proposed_thread
from viewer.launching.publish import publish as queue
from viewer.launching.refusals import AlreadyStarted, LaunchRefused
from viewer.launching.requests.requests import PublishRequest
from viewer.views.launch.forks import get_checkpoint
from viewer.views.launch.launch_requests import before_form, submission_of


@require_http_methods(["GET", "POST"])
def publish(request: HttpRequest, pk: int) -> HttpResponse:
    """What would be written, and the form that writes it, once."""
    checkpoint, submission = get_checkpoint(pk), submission_of(request)
    if response := before_form(request, checkpoint.location):
        return response
    publishing = PublishRequest(
        checkpoint=checkpoint,
        into=str((request.POST or request.GET).get("into") or NEW_THREAD),
        thread=request.POST.get("thread", "") if request.method == "POST" else proposed_thread(checkpoint),
        project=checkpoint.location.project,
        key=submission.key,
        requested_by=submission.user,
    )
    key, notice = submission.key, ""
    if request.method == "POST" and request.POST.get("agreed"):
        try:
            return redirect(queue(publishing))
        except LaunchRefused as refused:
            key, notice = _after(refused, key)
    elif request.method == "POST":
        notice = _("Confirm what is written, and press the button again.")
    context = _context(publishing) | {"key": key, "notice": notice}
    return render(request, "publishing/page.html", context, status=422 if notice else 200)


def _after(refused: LaunchRefused, key: UUID) -> tuple[UUID, str]:
    """The key of the form that is shown again, and why it is."""
    return (uuid4() if isinstance(refused, AlreadyStarted) else key), str(refused)


def _context(publishing: PublishRequest) -> dict[str, object]:
    preview, checkpoint = preview_publish(publishing), publishing.checkpoint
    return {
        "preview": preview,
        "targets": [one for one in preview.kind.fork_targets if one[0] != SCRATCH],
        "is_same_run": preview.key == checkpoint.run.key,
        "checkpoint": checkpoint,
        "location": checkpoint.location,
        "run": checkpoint.run,
        "into": publishing.into,
        "thread": publishing.thread,
    }
