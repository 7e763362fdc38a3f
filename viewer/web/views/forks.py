"""The pages of a fork, a resume and a publication, and what all launch pages read of a request."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.host_requests import Prewarm, ReadInterpreter, ask
from viewer.launching.findings import Findings
from viewer.launching.preview import Asked, ask_next
from viewer.launching.requests import ForkRequest, ResumeRequest
from viewer.models import Checkpoint, Job, Location, PreflightCheck, uuid_of
from viewer.presentation.run.branches import branch_colours
from viewer.web.launch.fork_page import ForkPage, fork_page
from viewer.web.launch.page import LaunchPage, Preview, Started, Submission
from viewer.web.launch.publish_page import publish_page
from viewer.web.launch.sweep_page import SweepPage

# The origin of a request, on which depends what a page starts without a click.


def is_from_our_page(request: HttpRequest) -> bool:
    """Whether a page of this server led here. False for links of other sites and for typed addresses.

    Browsers say so in Sec-Fetch-Site, which no page can set. Over plain HTTP they leave it out; there the
    referrer of one of our own pages counts, which other sites cannot send either.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    # Not parsed, as any client may send malformed ones.
    return request.headers.get("Referer", "").startswith(f"{request.scheme}://{request.get_host()}/")


# What the launch pages read of a request.


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
        ask(Prewarm(project.pk))
    return None


def launch_response(
    request: HttpRequest,
    page: LaunchPage[Preview, Started],
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


# Polled by a form while its preflight check runs.


@require_GET
def show_preflight(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return nothing; once the check has ended, trigger an update of the form's plan."""
    check = get_object_or_404(PreflightCheck, pk=pk)
    return HttpResponse(status=204, headers={"HX-Trigger": "preflight"} if check.has_ended else {})


# The pages of a fork and a resume.


TYPES: dict[str, type[ForkRequest]] = {Job.Kind.FORK: ForkRequest, Job.Kind.RESUME: ResumeRequest}


@require_http_methods(["GET", "POST"])
def fork(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a fork. Sending it starts the job, once."""
    return _form(request, pk, Job.Kind.FORK)


@require_http_methods(["GET", "POST"])
def resume(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a resume. Sending it starts the job, once."""
    return _form(request, pk, Job.Kind.RESUME)


@require_POST
def plan(request: HttpRequest, pk: int, kind: str = Job.Kind.FORK) -> HttpResponse:
    """The plan preview of the form. Nothing starts."""
    page = _page(request, get_checkpoint(pk), kind)
    template = "_plan.html" if request.headers.get("HX-Request") else "page.html"
    return render(request, f"forks/{template}", context_of(page) | {"is_update": True})


@require_POST
def next_units(request: HttpRequest, pk: int) -> HttpResponse:
    """Show what would run next after the form's edits, for each unit. Nothing runs."""
    page = _page(request, get_checkpoint(pk), Job.Kind.FORK)
    asked = Asked() if page.form_errors else ask_next(page.preview.request)
    template = "_next.html" if request.headers.get("HX-Request") else "page.html"
    return render(request, f"forks/{template}", context_of(page) | {"asked": asked})


def _form(request: HttpRequest, pk: int, kind: Job.Kind) -> HttpResponse:
    checkpoint = get_checkpoint(pk)
    if response := before_form(request, checkpoint.location):
        return response
    page = _page(request, checkpoint, kind)

    def address_of(job: Job) -> str:
        return f"{checkpoint.get_absolute_url()}&{urlencode({'job': job.pk})}"

    return launch_response(request, page, "forks/page.html", lambda: context_of(page), address_of)


def _page(request: HttpRequest, checkpoint: Checkpoint, kind: str) -> ForkPage:
    retried = retried_job(request, checkpoint=checkpoint, kind=kind)
    return fork_page(TYPES[kind], checkpoint, submission_of(request), retried)


def context_of(page: ForkPage | SweepPage) -> dict[str, Any]:
    """The context of the templates that forks and sweeps share."""
    checkpoint, project, contents = page.checkpoint, page.request.project, page.request.contents
    engine = engine_of(contents)
    facts = None
    if project:
        facts = ask(ReadInterpreter(project.interpreter, engine.name), host=project.host_id)
    address = reverse(page.kind, args=[checkpoint.pk])
    return {
        "page": page,
        "address": address,
        "page_address": f"{address}?retry={page.retry.job.pk}" if page.retry else address,
        "plan_address": reverse(f"{page.kind}-plan", args=[checkpoint.pk]),
        "form": page.parts,
        "plan": page.preview.plan if isinstance(page, ForkPage) else None,
        "checkpoint": checkpoint,
        "location": checkpoint.location,
        "run": checkpoint.run,
        "project": project,
        "contents": contents,
        "engine": engine,
        "kind": kind_of(engine, contents.kind),
        "python_version": facts.python_version if facts else "",
        "engine_version": facts.engine_version if facts else "",
        "colours": branch_colours(checkpoint.run),
    }


def get_checkpoint(pk: int) -> Checkpoint:
    """The row with what a form needs of it. Raises Http404."""
    related = ("location__project", "run__location", "stored_copy")
    return get_object_or_404(Checkpoint.objects.select_related(*related), pk=pk)


# The page on which a person publishes a fork.


@require_http_methods(["GET", "POST"])
def publish(request: HttpRequest, pk: int) -> HttpResponse:
    """What would be written, and the form that writes it, once."""
    checkpoint = get_checkpoint(pk)
    if response := before_form(request, checkpoint.location):
        return response
    page = publish_page(checkpoint, submission_of(request), request.GET.get("into", ""))
    context = {
        "page": page,
        "preview": page.preview,
        "checkpoint": checkpoint,
        "location": checkpoint.location,
        "run": checkpoint.run,
    }
    return launch_response(request, page, "publishing/page.html", lambda: context, Job.get_absolute_url)
