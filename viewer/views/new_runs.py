"""A new run: its entry point and inputs, where it writes, and one button that starts it."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.engines import engine_of
from viewer.engines.protocol import kind_of
from viewer.forms.checkpointing import EVENTS, read_checkpointing
from viewer.forms.location import roots_in_words
from viewer.forms.new_run import NewRunDraft, read_new_run
from viewer.forms.preflight import CHECK, shown_look
from viewer.forms.retry import retry_of_run
from viewer.importing import UnknownLocation, WriteTarget, open_write_target, write_target_at, write_target_of
from viewer.jobs.execution.protected_paths import conflict_of
from viewer.jobs.execution.request import request_for_run
from viewer.jobs.execution.start import JobRefused
from viewer.jobs.preflight.checks import preflight_new_run
from viewer.jobs.prewarm import client
from viewer.jobs.spool import LocationTarget
from viewer.launching.earlier_runs import agents_roles, earlier_run, entry_point_of_run, kickoff_inputs
from viewer.launching.enqueue import start_run
from viewer.launching.options import asks_for
from viewer.messages.labels import told
from viewer.models import Job, Location, Project, Run
from viewer.projects.proposing import engine_version, python_version
from viewer.views import forks
from viewer.views.origins import is_from_our_page


@require_http_methods(["GET", "POST"])
def new(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The form of a new run at a location; sending it starts the job, once."""
    location = _location(uid)
    is_sent = request.method == "POST"
    if location.project is None or not (location.project.is_confirmed or is_sent):
        return _to_the_project(request.get_full_path(), location)
    if not is_sent and is_from_our_page(request):
        client.request_prewarm(location.project)
    draft, place, kinds = _drafted(request, location, location.project)
    job = _started(request, draft, place) if is_sent and draft.entry_point else None
    if job:
        return redirect(job)
    checks_itself = forks.checks_itself(request, draft.look)
    context = _context(draft, kinds) | {"is_sent": is_sent, "checks_itself": checks_itself}
    return render(request, "new_runs/page.html", context, status=422 if is_sent else 200)


@require_POST
def plan(request: HttpRequest, uid: UUID) -> HttpResponse:
    """What the form as it stands would lead to. Nothing starts."""
    location = _location(uid)
    if location.project is None:
        return _to_the_project(reverse("new-run", args=[location.uid]), location)
    draft, _place, kinds = _drafted(request, location, location.project)
    template = "_plan.html" if request.headers.get("HX-Request") else "page.html"
    context = _context(draft, kinds) | {"is_update": True, "is_sent": True}
    return render(request, f"new_runs/{template}", context)


@require_GET
def again(request: HttpRequest, uid: UUID) -> HttpResponse:
    """To the form of a new run, filled with what this one was started with."""
    run = get_object_or_404(Run.objects.select_related("location"), uid=uid)
    return redirect(f"{reverse('new-run', args=[run.location.uid])}?{urlencode({'again': run.uid})}")


def _drafted(
    request: HttpRequest, location: Location, project: Project
) -> tuple[NewRunDraft, WriteTarget | None, dict[str, str]]:
    """The draft with its look, where it would write, and what each entry point gives."""
    kinds = engine_of(location).entry_point_kinds(Path(project.folder), project.entry_points)
    draft = _draft(request, location, project, kinds)
    place = _place(draft)
    if place and draft.entry_point and not draft.refusals:
        look = preflight_new_run(
            project,
            draft.entry_point,
            draft.entity,
            place.provider,
            again=CHECK in request.POST,
            only_stored=request.method != "POST",
        )
        draft.look = shown_look(look, None)
    return draft, place, kinds


def _draft(request: HttpRequest, location: Location, project: Project, kinds: dict[str, str]) -> NewRunDraft:
    asked = request.POST if request.method == "POST" else request.GET
    repeated = _run(asked.get("again", ""), location)
    retried = _retried(asked.get("retry", ""), location)
    entry_point = asked.get("entry_point", "") or (retried.request["entry_point"] if retried else "")
    if entry_point not in kinds:
        known = entry_point_of_run(project, repeated) if repeated else ""
        entry_point = known or (next(iter(kinds)) if len(kinds) == 1 else "")
    entity = kinds.get(entry_point) or asked.get("entity", "")
    names_of_kinds = list(engine_of(location).kinds)
    entity = entity if entity in names_of_kinds else names_of_kinds[0]
    found = repeated or (earlier_run(location, entry_point, entity) if entry_point else None)
    inputs = kickoff_inputs(found, entity) if found and found.entity == entity else {}
    sent = request.POST.dict() if request.method == "POST" else None
    engine = engine_of(location)
    groups = engine.checkpoint_events(Path(project.interpreter))
    checkpointing = read_checkpointing(engine, groups, entity, (), sent, request.POST.getlist(EVENTS))
    names = engine.input_names(Path(project.folder), entry_point, entity) if entry_point else ()
    roles = agents_roles(found) if found and found.entity == entity else []
    form = read_new_run(kind_of(engine, entity), names, inputs, sent, checkpointing, roles)
    retry = retry_of_run(form, retried) if retried else None
    if retry and sent is None:
        checkpointing = read_checkpointing(engine, groups, entity, (), retry.sent, retry.chosen[EVENTS])
        form = read_new_run(kind_of(engine, entity), names, inputs, retry.sent, checkpointing, roles)
    key = _sent_key(request) or uuid4()
    draft = NewRunDraft(location, project, entry_point, entity, form, key, repeated, found, retry=retry)
    if not project.is_confirmed:
        draft.refusals.append(_("The project of this location is not confirmed: nothing may run in it yet."))
    elif conflict := conflict_of(project):
        draft.refusals.append(told(conflict))
    return draft


def _started(request: HttpRequest, draft: NewRunDraft, place: WriteTarget | None) -> Job | None:
    """The job of this form: the one it started already, else a new one. None where it may not start."""
    if place is None or not draft.can_start:
        return None
    asked = request_for_run(
        LocationTarget(path=place.path, provider="sqlite" if place.provider == "sqlite" else "json"),
        draft.entity,
        draft.name,
        draft.entry_point,
        draft.form.values,
        draft.options or None,
    )
    earlier = Job.objects.filter(idempotency_key=draft.key).first()
    if earlier and asks_for(earlier, asked, draft.terms):
        return earlier
    draft.notice = _why_once_more(request, draft, earlier)
    if draft.notice:
        return None
    try:
        location = open_write_target(place, draft.project)
        user = request.user if request.user.is_authenticated else None
        return start_run(location, draft.project, asked, user, draft.key, draft.terms)
    except (JobRefused, UnknownLocation) as refused:
        draft.refusals.append(told(refused))
        return None


def _why_once_more(request: HttpRequest, draft: NewRunDraft, earlier: Job | None) -> str:
    """Why a form that was sent does not start yet, though nothing speaks against it; empty where it may."""
    if earlier:
        # Someone came back, changed the form and sent it again: that is another run.
        draft.key = uuid4()
        return _("This form has started a run already. To start another one, press the button again.")
    if _sent_key(request) is None:
        return _("The form came incomplete. Look it over, and press the button again.")
    return ""


def _place(draft: NewRunDraft) -> WriteTarget | None:
    """Where it is to write; None, with the reason beside the field, where nothing may be written there."""
    form = draft.form
    try:
        if form.place:
            return write_target_at(form.place, draft.project, settings.CHECKPOINT_ROOTS)
        location = draft.project.locations.filter(uid=UUID(form.location or str(draft.location.uid))).first()
        if location:
            return write_target_of(location, draft.project)
        form.place_error = _("This location is not the project's any more. Choose another one.")
    except UnknownLocation as error:
        form.place_error = str(error)
    except ValueError:
        form.place_error = _("There is no such location. Choose another one.")
    return None


def _context(draft: NewRunDraft, kinds: dict[str, str]) -> dict[str, Any]:
    interpreter = Path(draft.project.interpreter)
    chosen = draft.form.location or str(draft.location.uid)
    address = reverse("new-run", args=[draft.location.uid])
    what: dict[str, object] = (
        {"again": draft.again.uid} if draft.again else {"entry_point": draft.entry_point}
    )
    if draft.retry:
        what["retry"] = draft.retry.job.pk
    return {
        "draft": draft,
        "form": draft.form,
        "kinds": kinds,
        "has_kind": bool(kinds.get(draft.entry_point)),
        "entities": list(engine_of(draft.location).kinds),
        "kind": kind_of(engine_of(draft.location), draft.entity),
        "engine": engine_of(draft.location),
        "location": draft.location,
        "locations": [(one, str(one.uid) == chosen) for one in draft.project.locations.all()],
        "project": draft.project,
        "address": address,
        "plan_address": reverse("new-run-plan", args=[draft.location.uid]),
        "here": f"{address}?{urlencode(what)}" if draft.entry_point else address,
        "python_version": python_version(interpreter),
        "engine_version": engine_version(interpreter),
        "roots": roots_in_words(),
    }


def _location(uid: UUID) -> Location:
    return get_object_or_404(Location.objects.select_related("project"), uid=uid)


def _to_the_project(back: str, location: Location) -> HttpResponse:
    """To where a person says that its programs may run, and from there to ``back``."""
    return redirect(f"{reverse('project', args=[location.uid])}?{urlencode({'next': back})}")


def _retried(pk: str, location: Location) -> Job | None:
    """The new run's job that the form is to repeat, once it has ended."""
    try:
        return Job.objects.ended().filter(pk=UUID(pk), location=location, kind=Job.Kind.RUN).first()
    except ValueError:
        return None


def _run(uid: str, location: Location) -> Run | None:
    try:
        return Run.objects.select_related("location").filter(uid=UUID(uid), location=location).first()
    except ValueError:
        return None


def _sent_key(request: HttpRequest) -> UUID | None:
    try:
        return UUID(request.POST.get("key", ""))
    except ValueError:
        return None
