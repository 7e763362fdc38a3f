"""What the launch pages read of a request."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from viewer.jobs.prewarm import client
from viewer.launching.preview.findings import Findings
from viewer.models import Job, Location, uuid_of
from viewer.presentation.launch.page import LaunchPage, Started, Submission
from viewer.views.launch.origins import is_from_our_page

INCOMPLETE = _("Some fields are missing. Check the form, and press the button again.")


def submission_of(request: HttpRequest) -> Submission:
    """What was sent and by whom.

    A form starts once, even if it is sent twice. Its key is new if it has none.
    """
    return Submission(
        data=request.POST if request.method == "POST" else None,
        user=request.user if request.user.is_authenticated else None,
        key=uuid_of(request.POST.get("key", "")) or uuid4(),
        chosen={name: str(value) for name, value in request.GET.items() if name.startswith("choice:")},
        opened=request.GET.get("edit", ""),
    )


def retried_job(request: HttpRequest, **values: object) -> Job | None:
    """The ended job with these values that the form repeats, if any."""
    sent = request.POST if request.method == "POST" else request.GET
    pk = uuid_of(sent.get("retry", ""))
    return Job.objects.ended().filter(pk=pk, **values).first() if pk else None


def before_form(request: HttpRequest, location: Location) -> HttpResponse | None:
    """Redirect to the project if nobody has given permission to run its code; else prewarm its engine."""
    project = location.project
    if request.method == "POST":
        return None
    if project is None or not project.is_confirmed:
        return redirect_to_project(location, request.get_full_path())
    if is_from_our_page(request):
        client.request_prewarm(project)
    return None


def launch_response(
    request: HttpRequest,
    page: LaunchPage[Started],
    template: str,
    context_of: Callable[[], dict[str, Any]],
    address_of: Callable[[Started], str],
) -> HttpResponse:
    """Start what was sent, once, and redirect to it. Without a start, render the page."""
    if page.is_sent and request.POST.get("key") != str(page.key):
        page.notice = str(INCOMPLETE)
    elif page.is_sent and (started := page.start()):
        return redirect(address_of(started))
    context = context_of() | {"checks_itself": checks_on_load(request, page.findings)}
    return render(request, template, context, status=422 if page.is_sent else 200)


def redirect_to_project(location: Location, back: str) -> HttpResponse:
    """Redirect to the page on which a person confirms the project, and from there to ``back``."""
    return redirect(f"{reverse('project', args=[location.uid])}?{urlencode({'next': back})}")


def checks_on_load(request: HttpRequest, findings: Findings | None) -> bool:
    """Whether the page starts the preflight check as it loads: only if a page of ours led to it."""
    return findings is not None and findings.is_unchecked and is_from_our_page(request)
