"""Variations: several forks of one checkpoint from one form, and their page."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4, uuid5

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.access.permissions import viewer_allowed
from viewer.engines.plan import plain_steps
from viewer.forms.sweep import read_varying
from viewer.jobs.execution.protected_paths import conflict_of
from viewer.jobs.execution.request import request_for
from viewer.jobs.execution.start import JobRefused
from viewer.jobs.limits.usage import amount, limits_in
from viewer.jobs.prewarm import client
from viewer.launching.draft import branches_of
from viewer.launching.sweep import Planned, start_variations
from viewer.launching.sweep_draft import VariationsDraft, variations_draft
from viewer.messages.labels import told
from viewer.models import Checkpoint, Job, Sweep
from viewer.presentation.comparison import compared
from viewer.views import forks
from viewer.views.origins import is_from_our_page


@require_http_methods(["GET", "POST"])
def vary(request: HttpRequest, pk: int) -> HttpResponse:
    """The form of variations; sending it starts all of them, once."""
    checkpoint = forks.checkpoint_of(pk)
    if request.method == "GET" and not forks.is_confirmed(checkpoint.location.project):
        back = urlencode({"next": request.path})
        return redirect(f"{reverse('project', args=[checkpoint.location.uid])}?{back}")
    if request.method == "GET" and is_from_our_page(request):
        client.request_prewarm(checkpoint.location.project)
    is_sent = request.method == "POST"
    group = _group_of(request) if is_sent else None
    if group:
        return redirect(group)
    draft = _draft(request, checkpoint)
    # Where it was sent twice at once, the other's branches make this one's names taken.
    group = (_group_of(request) or _started(request, draft) or _group_of(request)) if is_sent else None
    if group:
        return redirect(group)
    checks_itself = forks.checks_itself(request, draft.plain.look)
    context = _context(draft) | {"is_sent": is_sent, "checks_itself": checks_itself}
    return render(request, "sweeps/form.html", context, status=422 if is_sent else 200)


@require_POST
def plan(request: HttpRequest, pk: int) -> HttpResponse:
    """The branches that the form as it stands would lead to. Nothing starts."""
    draft = _draft(request, forks.checkpoint_of(pk))
    template = "_plan.html" if request.headers.get("HX-Request") else "form.html"
    context = _context(draft) | {"is_update": True, "is_sent": True}
    return render(request, f"sweeps/{template}", context)


@viewer_allowed
@require_GET
def show(request: HttpRequest, uid: UUID) -> HttpResponse:
    """The branches of a group beside each other, and what came of each."""
    group = get_object_or_404(Sweep.objects.select_related("checkpoint__run", "requested_by"), pk=uid)
    branches = compared(group, request.GET.get("against", ""))
    is_under_way = any(not one.job.has_ended for one in branches)
    template = "_branches.html" if request.headers.get("HX-Request") else "page.html"
    limits = [amount(one.measure, one.most) for one in limits_in("sweep", group.limits)]
    context = {"group": group, "branches": branches, "is_under_way": is_under_way, "limits": limits}
    return render(request, f"sweeps/{template}", context)


def _group_of(request: HttpRequest) -> Sweep | None:
    """What this very form has started already."""
    return Sweep.objects.filter(idempotency_key=_group_key(request)).first()


def _started(request: HttpRequest, draft: VariationsDraft) -> Sweep | None:
    """The group of this form. None where it may not start."""
    draft.notice = _why_once_more(request, draft)
    if draft.notice or not draft.can_start:
        return None
    plain = draft.plain
    forks_ = [
        Planned(
            one.words,
            one.name,
            request_for(
                plain.checkpoint,
                Job.Kind.FORK,
                one.name,
                one.edits,
                one.promise.steps,
                plain.form.entry_point,
                draft.options_of(one),
            ),
            plain_steps(one.promise.steps),
        )
        for one in draft.varying.branches
    ]
    try:
        return start_variations(
            plain.checkpoint,
            plain.project,
            draft.varying.base,
            forks_,
            _group_key(request),
            draft.terms,
            preload=plain.form.models.preload,
            requested_by=request.user if request.user.is_authenticated else None,
        )
    except JobRefused as refused:
        draft.refusals.append(told(refused))
        return None


def _why_once_more(request: HttpRequest, draft: VariationsDraft) -> str:
    if forks.sent_key(request) is None:
        return _("The form came incomplete. Look it over, and press the button again.")
    if request.POST.get("shown", draft.shown_plan) != draft.shown_plan:
        return _(
            "What will happen has changed with your last edit. Look it over, and press the button again."
        )
    return ""


def _group_key(request: HttpRequest) -> UUID:
    """The same for a form with the same content: sent twice, it starts once; changed, it is another."""
    unlike = {"csrfmiddlewaretoken", "shown"}
    content = sorted((name, texts) for name, texts in request.POST.lists() if name not in unlike)
    return uuid5(forks.sent_key(request) or uuid4(), repr(content))


def _draft(request: HttpRequest, checkpoint: Checkpoint) -> VariationsDraft:
    is_sent = request.method == "POST"
    plain = forks.draft_for(request, checkpoint, Job.Kind.FORK)
    sent = dict(request.POST.lists()) if is_sent else None
    furthest = forks.furthest(checkpoint)
    varying = read_varying(plain.contents, plain.form, branches_of(checkpoint), sent, furthest)
    draft = variations_draft(plain, varying, plain.key)
    if plain.project and (conflict := conflict_of(plain.project)):
        draft.refusals.append(told(conflict))
    return draft


def _context(draft: VariationsDraft) -> dict[str, Any]:
    address = reverse("vary", args=[draft.plain.checkpoint.pk])
    # The parts that forks have, too, name the draft as they do there.
    plain = forks.context_of(draft.plain)
    return plain | {
        "group": draft,
        "varying": draft.varying,
        "address": address,
        "plan_address": reverse("vary-plan", args=[draft.plain.checkpoint.pk]),
    }
