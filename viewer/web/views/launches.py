"""The pages on which runs are started: forks, resumes, publications, new runs, sweeps, and several runs."""

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4, uuid5

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.host_requests import CodeDifference, Prewarm, ReadCodeDifference, ReadInterpreter, ask
from viewer.launching.preview import Asked, ask_next, other_locations
from viewer.launching.refusals import Findings
from viewer.launching.requests import FORKS_AND_RESUMES
from viewer.models import (
    Checkpoint,
    Job,
    Location,
    PreflightCheck,
    Project,
    RecordedCode,
    Right,
    Run,
    Sweep,
    uuid_of,
)
from viewer.presentation import sweeps
from viewer.presentation.calls import compared_calls, totals_of
from viewer.presentation.diff import difference, folded
from viewer.presentation.jobs.pages import command_of, reproduction_of
from viewer.presentation.jobs.status import amount
from viewer.presentation.listing import headings, known_sort, offered_locations
from viewer.presentation.run.branches import branch_colours
from viewer.records.hosts import allowed_folders
from viewer.records.limits import limits_in
from viewer.records.permissions import person_of, requires
from viewer.web.launch.bulk_page import BulkPage, bulk_page
from viewer.web.launch.new_run_page import NewRunPage, chosen_for, new_run_page
from viewer.web.launch.page import ForkPage, LaunchPage, Preview, Started, fork_page, publish_page
from viewer.web.launch.prefilled import Submission, editable_parts_of
from viewer.web.launch.sweep_page import SweepPage, sweep_page

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
        user=person_of(request),
        key=uuid_of(request.POST.get("key", "")) or uuid4(),
        chosen={name: str(value) for name, value in request.GET.items() if name.startswith("choice:")},
        opened=request.GET.get("edit", ""),
        call=request.GET.get("call", ""),
        answer=request.GET.get("answer", ""),
        value=request.GET.get("value", ""),
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


def plan_response(request: HttpRequest, part: str, page: str, context: dict[str, Any]) -> HttpResponse:
    """Return the plan to htmx, which updates the page; to others the page with it."""
    template = part if request.headers.get("HX-Request") else page
    return render(request, template, context | {"is_update": True})


def redirect_to_project(location: Location, back: str) -> HttpResponse:
    """Redirect to the page on which a person confirms the project, and from there to ``back``."""
    return redirect(f"{reverse('project', args=[location.uid])}?{urlencode({'next': back})}")


def checks_on_load(request: HttpRequest, findings: Findings | None) -> bool:
    """Whether the page starts the preflight check as it loads: only if a page of ours led to it."""
    return findings is not None and findings.is_unchecked and is_from_our_page(request)


# Polled by a form while its preflight check runs.


@requires(Right.RUN)
@require_GET
def show_preflight(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return nothing; once the check has ended, trigger an update of the form's plan."""
    check = get_object_or_404(PreflightCheck, pk=pk)
    return HttpResponse(status=204, headers={"HX-Trigger": "preflight"} if check.has_ended else {})


# The pages of a fork and a resume.


@requires(Right.RUN)
@require_http_methods(["GET", "POST"])
def fork(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a fork. Sending it starts the job, once."""
    return _fork_form(request, pk, Job.Kind.FORK)


@requires(Right.RUN)
@require_http_methods(["GET", "POST"])
def resume(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a resume. Sending it starts the job, once."""
    return _fork_form(request, pk, Job.Kind.RESUME)


@requires(Right.RUN)
@require_POST
def plan_fork(request: HttpRequest, pk: int, kind: str = Job.Kind.FORK) -> HttpResponse:
    """The plan preview of the form. Nothing starts."""
    page = _fork_page(request, get_checkpoint(pk), kind)
    return plan_response(request, "forks/_plan.html", "forks/page.html", context_of(page))


@requires(Right.RUN)
@require_POST
def next_units(request: HttpRequest, pk: int) -> HttpResponse:
    """Show what would run next after the form's edits, for each unit. Nothing runs."""
    page = _fork_page(request, get_checkpoint(pk), Job.Kind.FORK)
    asked = Asked() if page.form_errors else ask_next(page.preview.request)
    template = "_next.html" if request.headers.get("HX-Request") else "page.html"
    return render(request, f"forks/{template}", context_of(page) | {"asked": asked})


@requires(Right.RUN)
@require_GET
def show_code_difference(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a source of the project as it was when the checkpoint was written, and as it is now."""
    checkpoint, name = get_checkpoint(pk), request.GET.get("name", "")
    project = (_other_location(request, checkpoint) or checkpoint.location).project
    code = RecordedCode.of(checkpoint, project)
    found = CodeDifference(None, None)
    if code and project:
        found = ask(ReadCodeDifference(project.pk, code.pk, name))
    before, after = difference(found.before or "", found.after or "")
    context = {
        "checkpoint": checkpoint,
        "title": name or _("File"),
        "found": found,
        "before": folded(before, "lines"),
        "after": folded(after, "lines"),
        "is_recorded": code is not None and name in code.files,
    }
    return render(request, "forks/code_difference.html", context)


def _fork_form(request: HttpRequest, pk: int, kind: Job.Kind) -> HttpResponse:
    checkpoint = get_checkpoint(pk)
    if response := before_form(request, checkpoint.location):
        return response
    page = _fork_page(request, checkpoint, kind)

    def address_of(job: Job) -> str:
        if job.is_on_other_host:
            return job.get_absolute_url()
        return f"{checkpoint.get_absolute_url()}&{urlencode({'job': job.pk})}"

    return launch_response(request, page, "forks/page.html", lambda: context_of(page), address_of)


def _fork_page(request: HttpRequest, checkpoint: Checkpoint, kind: str) -> ForkPage:
    retried = retried_job(request, checkpoint=checkpoint, kind=kind)
    on = retried.location if retried and retried.is_on_other_host else _other_location(request, checkpoint)
    if on and kind != Job.Kind.FORK:
        raise Http404
    return fork_page(FORKS_AND_RESUMES[kind], checkpoint, submission_of(request), retried, on)


def _other_location(request: HttpRequest, checkpoint: Checkpoint) -> Location | None:
    """The location of another host that the form or link names. Raises Http404 if no fork can run there."""
    sent = request.POST if request.method == "POST" else request.GET
    if not (named := sent.get("on", "")):
        return None
    found = next((one for one in other_locations(checkpoint) if str(one.uid) == named), None)
    if found is None:
        raise Http404
    return found


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
        "page_address": _page_address(page, address),
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


def _page_address(page: ForkPage | SweepPage, address: str) -> str:
    if page.retry:
        return f"{address}?retry={page.retry.job.pk}"
    on = page.preview.request.on if isinstance(page, ForkPage) else None
    return f"{address}?on={on.uid}" if on else address


def get_checkpoint(pk: int) -> Checkpoint:
    """The row with what a form needs of it. Raises Http404."""
    related = ("location__project", "run__location", "stored_copy")
    return get_object_or_404(Checkpoint.objects.select_related(*related), pk=pk)


# The page on which a person publishes a fork.


@requires(Right.RUN)
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


# The page of a new run.


@requires(Right.RUN)
@require_http_methods(["GET", "POST"])
def new_run(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The form of a new run at a location. Sending it starts the job, once."""
    location = _location_of(uid)
    if response := before_form(request, location):
        return response
    if location.project is None:
        return redirect_to_project(location, request.get_full_path())
    page = _new_run_page(request, location, location.project)
    return launch_response(
        request, page, "new_runs/page.html", lambda: _new_run_context(page), Job.get_absolute_url
    )


@requires(Right.RUN)
@require_POST
def plan_new_run(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The preview of the form. Nothing starts."""
    location = _location_of(uid)
    if location.project is None:
        return redirect_to_project(location, reverse("new-run", args=[location.uid]))
    page = _new_run_page(request, location, location.project)
    return plan_response(request, "new_runs/_plan.html", "new_runs/page.html", _new_run_context(page))


@requires(Right.RUN)
@require_GET
def run_again(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Redirect to the form of a new run, filled with what this run was started with."""
    run = get_object_or_404(Run.objects.select_related("location"), uid=uid)
    return redirect(f"{reverse('new-run', args=[run.location.uid])}?{urlencode({'again': run.uid})}")


def _new_run_page(request: HttpRequest, location: Location, project: Project) -> NewRunPage:
    sent = request.POST if request.method == "POST" else request.GET
    uid = uuid_of(sent.get("again", ""))
    repeated = location.runs.select_related("location").filter(uid=uid).first() if uid else None
    retried = retried_job(request, location=location, kind=Job.Kind.RUN)
    chosen = chosen_for(location, project, sent.dict(), repeated, retried)
    return new_run_page(location, project, chosen, submission_of(request))


def _new_run_context(page: NewRunPage) -> dict[str, Any]:
    location, project = page.location, page.project
    engine, kinds = engine_of(location), page.chosen.kinds
    facts = ask(ReadInterpreter(project.interpreter, engine.name), host=project.host_id)
    target = page.parts.target["location"].value() or str(location.uid)
    address = reverse("new-run", args=[location.uid])
    query: dict[str, object] = {"again": page.again.uid} if page.again else {"entry_point": page.entry_point}
    if page.retry:
        query["retry"] = page.retry.job.pk
    return {
        "page": page,
        "is_new_run": True,
        "form": page.parts,
        "kinds": kinds,
        "has_kind": bool(kinds.get(page.entry_point)),
        "entities": [name for name, kind in engine.kinds.items() if kind.starts_new_runs],
        "kind": kind_of(engine, page.entity),
        "engine": engine,
        "location": location,
        "locations": [(one, str(one.uid) == target) for one in _write_targets(project, location, target)],
        "project": project,
        "address": address,
        "plan_address": reverse("new-run-plan", args=[location.uid]),
        "page_address": f"{address}?{urlencode(query)}" if page.entry_point else address,
        "python_version": facts.python_version,
        "engine_version": facts.engine_version,
        "roots": allowed_folders(location.host),
    }


def _write_targets(project: Project, location: Location, target: str) -> list[Location]:
    """Locations of the project to choose from, always with this one and the chosen one."""
    choices = list(offered_locations(project.locations.all()))
    chosen = project.locations.filter(uid__in=[location.uid, uuid_of(target) or location.uid])
    missing = [one for one in chosen if one not in choices]
    return [one for one in (*missing, *choices) if one.takes_runs]


def _location_of(uid: UUID) -> Location:
    return get_object_or_404(Location.objects.select_related("project"), uid=uid)


# The page on which several runs are forked or resumed at once.


@requires(Right.RUN)
@require_http_methods(["GET", "POST"])
def bulk(request: HttpRequest, kind: str) -> HttpResponse:
    """Show the plan of the selected runs. Sending the form starts all that can start, once."""
    page = _bulk_page(request, kind)
    return launch_response(
        request, page, "bulk/page.html", lambda: _bulk_context(page), Sweep.get_absolute_url
    )


@requires(Right.RUN)
@require_POST
def plan_bulk(request: HttpRequest, kind: str) -> HttpResponse:
    """The plan of the form. Nothing starts."""
    page = _bulk_page(request, kind)
    return plan_response(request, "bulk/_plan.html", "bulk/page.html", _bulk_context(page))


def _bulk_page(request: HttpRequest, kind: str) -> BulkPage:
    sent = request.POST if request.method == "POST" else request.GET
    return bulk_page(Job.Kind(kind), sent, submission_of(request))


def _bulk_context(page: BulkPage) -> dict[str, Any]:
    return {
        "page": page,
        "form": page.form,
        "address": reverse(f"bulk-{page.kind}"),
        "plan_address": reverse(f"bulk-{page.kind}-plan"),
    }


# The page on which a sweep is started, and the page of its forks.


# Fields that do not make the content of two forms differ.
IGNORED = {"csrfmiddlewaretoken", "shown"}

# After how many seconds a page refreshes: while a branch runs, and while all wait for a limit or a person.
RUNNING_SECONDS, HELD_SECONDS = 2, 8


@requires(Right.RUN)
@require_http_methods(["GET", "POST"])
def new_sweep(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a sweep. Sending it starts all forks, once."""
    checkpoint = get_checkpoint(pk)
    if response := before_form(request, checkpoint.location):
        return response
    page = _sweep_page(request, checkpoint)
    return launch_response(
        request, page, "sweeps/form.html", lambda: _sweep_context(page), Sweep.get_absolute_url
    )


@requires(Right.RUN)
@require_POST
def plan_sweep(request: HttpRequest, pk: int) -> HttpResponse:
    """The variations of the form, with their plans. Nothing starts."""
    page = _sweep_page(request, get_checkpoint(pk))
    return plan_response(request, "sweeps/_plan.html", "sweeps/form.html", _sweep_context(page))


@requires(Right.VIEW)
@require_GET
def show_sweep(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The forks of a sweep, with their outcomes, next to each other."""
    related = ("checkpoint__run", "checkpoint__location__project", "requested_by", "collection")
    group = get_object_or_404(Sweep.objects.select_related(*related), pk=uid)
    is_of_calls = group.is_of_calls
    are_listed = group.is_of_runs or is_of_calls
    branches = sweeps.runs_of(group) if are_listed else sweeps.compared(group, request.GET.get("against", ""))
    wait = sweeps.held_back(branches)
    is_under_way = wait is None and not all(one.has_ended for one in branches)
    refresh_seconds = HELD_SECONDS if wait else RUNNING_SECONDS if is_under_way else 0
    is_paired = bool(group.score) and group.is_of_runs
    columns, usual = (
        (sweeps.PAIR_COLUMNS, "difference")
        if is_paired
        else (sweeps.COLUMNS, "-score" if group.score else "")
    )
    sort = known_sort(request.GET.get("sort", ""), columns, usual)
    template = "_branches.html" if request.headers.get("HX-Request") else "page.html"
    limits = [amount(one.measure, one.max_amount) for one in limits_in("sweep", group.limits)]
    ordered = sweeps.in_order(branches, sort)
    context = {"group": group, "branches": ordered, "is_under_way": is_under_way}
    context |= {
        "refresh_seconds": refresh_seconds,
        "wait": wait,
        "limits": limits,
        "winners": sweeps.winners(branches),
    }
    if is_of_calls:
        context |= _calls_context(request, group, [one.job for one in ordered])
    context["kind"] = group.label
    context["scores"] = {"headings": headings(columns, sort, request.GET)}
    if is_paired:
        context |= {"is_paired": True, "paired": sweeps.mean_difference_of(branches)}
    if template == "page.html":
        context["commands"] = _commands([one.job for one in branches])
    return render(request, f"sweeps/{template}", context)


def _calls_context(request: HttpRequest, group: Sweep, jobs: list[Job]) -> dict[str, Any]:
    """The replayed calls with their totals."""
    calls = compared_calls(jobs, group.collection, partial(editable_parts_of, request.user))
    return {"calls": calls, "totals": totals_of(calls), "is_of_calls": True}


def _commands(jobs: list[Job]) -> str:
    """The command of each job that can be repeated, one a line."""
    return "\n".join(command_of(job, what) for job in jobs if (what := reproduction_of(job)))


def _sweep_page(request: HttpRequest, checkpoint: Checkpoint) -> SweepPage:
    """The page. The same content sent twice starts once; changed content is another sweep."""
    return sweep_page(checkpoint, submission_of(request), content_key(request))


def content_key(request: HttpRequest) -> UUID:
    """The key of what a form starts. Sent again with the same content, it starts nothing new."""
    content = sorted((name, texts) for name, texts in request.POST.lists() if name not in IGNORED)
    return uuid5(submission_of(request).key, repr(content))


def _sweep_context(page: SweepPage) -> dict[str, Any]:
    address, pk = reverse("new-sweep", args=[page.checkpoint.pk]), page.checkpoint.pk
    plan_address = reverse("new-sweep-plan", args=[pk])
    return context_of(page) | {"address": address, "page_address": address, "plan_address": plan_address}
