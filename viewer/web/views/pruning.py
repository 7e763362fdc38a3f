"""Prune a location: choose rules, see the exact list, confirm it."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from viewer.host_requests import IsLocationGone, ListPrunable, Prune, PruneRefused, PruneRules, ask
from viewer.messages.translation import translate
from viewer.models import Location
from viewer.presentation.deletions import deleted_texts
from viewer.records.locations import keeps_files
from viewer.web.forms.locations import RulesForm

MAX_LISTED = 2_000


@require_http_methods(["GET", "POST"])
def show(request: HttpRequest, uid: UUID) -> HttpResponse:
    """List what the rules of the address would delete; with POST, delete the list of this digest."""
    location = get_object_or_404(Location.objects.select_related("project"), uid=uid)
    form = RulesForm(request.POST or request.GET)
    status, is_gone = 200, ask(IsLocationGone(location.pk))
    only_copies = is_gone or not keeps_files(location)
    if request.method == "POST":
        status = 422
        if form.is_valid() and _deleted(request, location, _rules(form, only_copies)):
            return redirect(location)
    context: dict[str, Any] = {"location": location, "form": form, "most": MAX_LISTED}
    context |= {"only_copies": only_copies, "is_gone": is_gone}
    if form.is_valid():
        try:
            context["rules"] = rules = _rules(form, only_copies)
            context["plan"] = ask(ListPrunable(location.pk, rules))
        except PruneRefused as error:
            context["blocker"] = translate(error)
    return render(request, "pruning/page.html", context, status=status)


def _rules(form: RulesForm, only_copies: bool) -> PruneRules:
    given = form.cleaned_data
    return PruneRules(given["days"], given["latest"], given["branch"], given["copies"] or only_copies)


def _deleted(request: HttpRequest, location: Location, rules: PruneRules) -> bool:
    """Delete the confirmed list and say so. Returns False, with a message, if nothing was deleted."""
    try:
        done = ask(Prune(location.pk, rules, request.POST.get("digest", "")))
    except PruneRefused as error:
        messages.error(request, translate(error))
        return False
    for text in deleted_texts(location, done):
        messages.success(request, text)
    for kept in done.kept[:20]:
        reason = {"key": kept.key, "reason": translate(kept.reason)}
        messages.warning(request, _("Not deleted: %(key)s. %(reason)s") % reason)
    return True
