"""Forking and resuming: a form, what will happen, and one button that starts it."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from viewer.engines import engine_of
from viewer.engines.plan import plain_steps
from viewer.engines.protocol import Contents, kind_of
from viewer.forms.checkpointing import EVENTS
from viewer.forms.preflight import CHECK, ShownLook, accepts_effects, shown_look
from viewer.forms.retry import retry_of_fork
from viewer.importing import stored_contents
from viewer.jobs.execution.protected_paths import conflict_of
from viewer.jobs.execution.request import request_for
from viewer.jobs.execution.start import JobRefused
from viewer.jobs.preflight.checks import preflight_checkpoint
from viewer.jobs.prewarm import client
from viewer.launching.branch_reservation import BranchTaken
from viewer.launching.draft import Draft, branches_of, draft_of
from viewer.launching.enqueue import start_job
from viewer.launching.options import asks_for
from viewer.messages.labels import told
from viewer.models import Checkpoint, Job, PreflightCheck, Project, accept_effects
from viewer.presentation.run.colors import branch_colours
from viewer.projects.proposing import engine_version, python_version
from viewer.views.origins import is_from_our_page

# What the run's furthest checkpoint cost is looked up only where reading it is quick.
MOST_BYTES_FOR_COST = 4 * 1024 * 1024


@require_http_methods(["GET", "POST"])
def fork(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of a fork; sending it starts the job, once."""
    return _answer(request, pk, Job.Kind.FORK)


@require_http_methods(["GET", "POST"])
def resume(request: HttpRequest, pk: int) -> HttpResponse:
    """What a resume keeps and runs; sending it starts the job, once."""
    return _answer(request, pk, Job.Kind.RESUME)


@require_POST
def plan(request: HttpRequest, pk: int, kind: str = Job.Kind.FORK) -> HttpResponse:
    """What the form as it stands would lead to. Nothing starts."""
    draft = draft_for(request, checkpoint_of(pk), Job.Kind(kind))
    template = "_plan.html" if request.headers.get("HX-Request") else "page.html"
    return render(request, f"forks/{template}", context_of(draft) | {"is_update": True, "is_sent": True})


def _answer(request: HttpRequest, pk: int, kind: Job.Kind) -> HttpResponse:
    checkpoint = checkpoint_of(pk)
    if request.method == "GET" and not is_confirmed(checkpoint.location.project):
        back = urlencode({"next": request.path})
        return redirect(f"{reverse('project', args=[checkpoint.location.uid])}?{back}")
    if request.method == "GET" and is_from_our_page(request):
        client.request_prewarm(checkpoint.location.project)
    draft = draft_for(request, checkpoint, kind)
    job = _started(request, draft) if request.method == "POST" else None
    if job:
        return redirect(f"{checkpoint.get_absolute_url()}&{urlencode({'job': job.pk})}")
    is_sent = request.method == "POST"
    context = context_of(draft) | {"is_sent": is_sent, "checks_itself": checks_itself(request, draft.look)}
    return render(request, "forks/page.html", context, status=422 if is_sent else 200)


def _started(request: HttpRequest, draft: Draft) -> Job | None:
    """The job of this form: the one it started already, else a new one. None where it may not start."""
    asked = request_for(
        draft.checkpoint,
        draft.kind,
        draft.form.branch,
        draft.form.edits,
        draft.promise.steps,
        draft.form.entry_point,
        draft.options,
    )
    earlier = Job.objects.filter(idempotency_key=draft.key).first()
    if earlier and asks_for(earlier, asked, draft.terms):
        return earlier
    draft.notice = _why_once_more(request, draft, earlier)
    if draft.notice or not draft.can_start:
        return None
    try:
        return start_job(
            draft.checkpoint,
            draft.project,
            draft.kind,
            asked["branch"],
            asked,
            plain_steps(draft.promise.steps),
            requested_by=request.user if request.user.is_authenticated else None,
            idempotency_key=draft.key,
            terms=draft.terms,
        )
    except BranchTaken as refused:
        if draft.kind == Job.Kind.FORK:
            draft.form.branch_error = told(refused)
        else:
            draft.refusals.append(told(refused))
    except JobRefused as refused:
        draft.refusals.append(told(refused))
    return None


def _why_once_more(request: HttpRequest, draft: Draft, earlier: Job | None) -> str:
    """Why a form that was sent does not start yet, though nothing speaks against it; empty where it may."""
    if earlier:
        # Someone came back, changed the form and sent it again: that is another run.
        draft.key = uuid4()
        return _("This form has started a run already. To start another one, press the button again.")
    if sent_key(request) is None:
        return _("The form came incomplete. Look it over, and press the button again.")
    if request.POST.get("shown", draft.shown_plan) != draft.shown_plan:
        return _(
            "What will happen has changed with your last edit. Look it over, and press the button again."
        )
    return ""


def draft_for(request: HttpRequest, checkpoint: Checkpoint, kind: Job.Kind) -> Draft:
    """The draft of this form, as it is first shown or as it was sent."""
    contents = stored_contents(checkpoint)
    project = checkpoint.location.project
    entry_point = ""
    if project:
        entry_point = engine_of(contents).entry_point_for(
            Path(project.folder), project.entry_points, contents.kind, contents.name
        )
    sent = request.POST.dict() if request.method == "POST" else None
    chosen = {name: request.POST.getlist(name) for name in ("again", "keep", EVENTS)}
    # Its own for each form that is shown, so that sending one twice starts one run.
    key = sent_key(request) or uuid4()
    last = furthest(checkpoint)
    retried = _retried(request, checkpoint, kind)
    retry = None
    if retried:
        form = draft_of(kind, checkpoint, contents, None, {}, entry_point, key, last).form
        retry = retry_of_fork(form, retried, branches_of(checkpoint))
    if retry and sent is None:
        sent, chosen = retry.sent, retry.chosen
    draft = draft_of(kind, checkpoint, contents, sent, chosen, entry_point, key, last)
    draft.retry = retry
    if draft.project and (conflict := conflict_of(draft.project)):
        draft.refusals.append(told(conflict))
    if draft.project and not draft.refusals and not draft.form.entry_point_error:
        draft.look = shown_look(_preflight(request, checkpoint, draft.project, draft.form.entry_point), sent)
    return draft


def _preflight(
    request: HttpRequest, checkpoint: Checkpoint, project: Project, entry_point: str
) -> PreflightCheck:
    """The preflight check of this run. It is started by a POST alone, and where it failed only when asked.

    Where the POST accepts the effects that it has listed, they are recorded for the project.
    """
    sent = request.POST.dict()
    stored = preflight_checkpoint(checkpoint, project, entry_point, only_stored=True)
    if request.method != "POST":
        return stored
    if accepts_effects(stored, sent):
        accept_effects(project, stored.new_effects, request.user)
    return preflight_checkpoint(checkpoint, project, entry_point, again=CHECK in sent)


def checks_itself(request: HttpRequest, look: ShownLook | None) -> bool:
    """Whether the page sends for the preflight check as it loads: not where another site led to it."""
    return look is not None and look.is_unchecked and is_from_our_page(request)


def _retried(request: HttpRequest, checkpoint: Checkpoint, kind: Job.Kind) -> Job | None:
    """The job of this checkpoint that the form is to repeat, once it has ended."""
    asked = request.POST if request.method == "POST" else request.GET
    try:
        jobs = Job.objects.ended().filter(pk=UUID(asked.get("retry", "")))
    except ValueError:
        return None
    return jobs.filter(checkpoint=checkpoint, kind=kind).first()


def context_of(draft: Draft) -> dict[str, Any]:
    """What the parts of the fork's page are given."""
    interpreter = Path(draft.project.interpreter) if draft.project else None
    address = reverse(draft.kind, args=[draft.checkpoint.pk])
    return {
        "draft": draft,
        "address": address,
        "own_address": f"{address}?retry={draft.retry.job.pk}" if draft.retry else address,
        "plan_address": reverse(f"{draft.kind}-plan", args=[draft.checkpoint.pk]),
        "form": draft.form,
        "promise": draft.promise,
        "checkpoint": draft.checkpoint,
        "location": draft.checkpoint.location,
        "run": draft.checkpoint.run,
        "project": draft.project,
        "contents": draft.contents,
        "engine": engine_of(draft.contents),
        "kind": kind_of(engine_of(draft.contents), draft.contents.kind),
        "python_version": python_version(interpreter) if interpreter else "",
        "engine_version": engine_version(interpreter) if interpreter else "",
        "colours": branch_colours(draft.checkpoint.run),
    }


def checkpoint_of(pk: int) -> Checkpoint:
    """The row with all that a form needs of it. Raises Http404."""
    related = ("location__project", "run__location", "body")
    return get_object_or_404(Checkpoint.objects.select_related(*related), pk=pk)


def is_confirmed(project: Project | None) -> bool:
    """Whether a person has agreed that programs of this project may run."""
    return project is not None and project.is_confirmed


def sent_key(request: HttpRequest) -> UUID | None:
    """The key that the form was shown with, by which it starts once at most."""
    try:
        return UUID(request.POST.get("key", ""))
    except ValueError:
        return None


def furthest(checkpoint: Checkpoint) -> Contents | None:
    """Where the checkpoint's run got furthest. None where that is this very one."""
    rows = checkpoint.run.checkpoints.filter(size__lte=MOST_BYTES_FOR_COST).select_related("body")
    row = rows.order_by("-tasks_done", "-event_count").first()
    if row is None or row.pk == checkpoint.pk:
        return None
    return stored_contents(row)
