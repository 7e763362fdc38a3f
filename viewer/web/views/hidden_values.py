"""Hidden values: where a location has them, and one of a checkpoint, for one view and a reason."""

from itertools import islice
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_POST

from viewer.host_requests import HostRefusal, NotReadable, RevealValue, ask
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Location, Right
from viewer.records.audit import Action, Audited, record
from viewer.records.bodies import body_of
from viewer.records.bucket import BucketAway
from viewer.records.keys import keys_in
from viewer.records.permissions import requires
from viewer.redaction import HiddenValue, hidden_values

# The values that one page lists, and the checkpoints that the page of a location reads.
MAX_LISTED, MAX_READ = 500, 500
# Codes, because nothing can be removed from the audit trail: it holds no text that a person typed.
REASONS = {
    "rotate": _("To replace the key where it is used"),
    "incident": _("To examine an incident"),
    "debug": _("To find out why a run failed"),
    "redaction": _("To check whether it is a secret"),
}


class RevealForm(forms.Form):
    """Which of these hidden values is revealed, and why."""

    pointer = forms.ChoiceField()
    reason = forms.ChoiceField(choices=[("", _("Choose a reason")), *REASONS.items()])

    def __init__(self, data: Any, listed: list[HiddenValue]) -> None:
        super().__init__(data)
        self.fields["pointer"].choices = [(one.pointer, one.path) for one in listed]  # type: ignore[attr-defined]


@requires(Right.REVEAL)
@require_GET
def index(request: HttpRequest, pk: int) -> HttpResponse:
    """List where something is hidden, without the values."""
    checkpoint = _checkpoint(pk)
    return _page(request, checkpoint, _listed(checkpoint))


@requires(Right.REVEAL)
@require_POST
def reveal(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one hidden value in this response only, once it is recorded who has seen it, and why."""
    checkpoint = _checkpoint(pk)
    listed = _listed(checkpoint)
    form = RevealForm(request.POST, listed)
    if not form.is_valid():
        return _page(request, checkpoint, listed, form=form, status=422)
    chosen = next(one for one in listed if one.pointer == form.cleaned_data["pointer"])
    try:
        with transaction.atomic():
            value = ask(RevealValue(pk, chosen.pointer))
            record(Action.REVEALED, Audited.CHECKPOINT, pk, f"{form.cleaned_data['reason']}: {chosen.path}")
    except HostRefusal as refused:
        return _page(request, checkpoint, listed, error=translate(refused), status=422)
    return _page(request, checkpoint, listed, revealed=chosen, value=value)


@requires(Right.LOCATIONS)
@require_GET
def location_keys(request: HttpRequest, uid: UUID) -> HttpResponse:
    """List where the newest checkpoints of a location have keys, for their owner to replace."""
    location = get_object_or_404(Location, uid=uid)
    try:
        report = keys_in(location, MAX_READ)
    except BucketAway as away:
        return render(
            request, "hidden_values/location.html", {"location": location, "error": translate(away)}
        )
    context = {"location": location, "report": report, "newest": MAX_READ}
    return render(request, "hidden_values/location.html", context)


def _checkpoint(pk: int) -> Checkpoint:
    """The checkpoint. Raises Http404, also if nothing records who has seen a value."""
    if not settings.AUDIT:
        raise Http404
    related = ("location", "run__location", "stored_copy")
    return get_object_or_404(Checkpoint.objects.select_related(*related), pk=pk)


def _listed(checkpoint: Checkpoint) -> list[HiddenValue]:
    try:
        return list(islice(hidden_values(body_of(checkpoint)), MAX_LISTED))
    except NotReadable:
        return []


def _page(
    request: HttpRequest, checkpoint: Checkpoint, listed: list[HiddenValue], status: int = 200, **shown: Any
) -> HttpResponse:
    form = shown.pop("form", None) or RevealForm(None, listed)
    context = {"checkpoint": checkpoint, "run": checkpoint.run, "listed": listed, "form": form, **shown}
    return render(request, "hidden_values/page.html", context, status=status)
