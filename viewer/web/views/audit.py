"""The audit trail, and hidden values: where a location has them, and one of a checkpoint, for a reason."""

from contextlib import suppress
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy
from django.views.decorators.http import require_GET, require_POST

from viewer.host_requests import HostRefusal, NotReadable, RevealValue, ask
from viewer.messages.translation import translate
from viewer.models import AuditEntry, Checkpoint, Location, Right
from viewer.records.audit import Action, Audited, entries_of, line_of, record
from viewer.records.bodies import body_of, keys_in
from viewer.records.bucket import BucketAway
from viewer.records.permissions import requires
from viewer.redaction import HiddenValue, hidden_values
from viewer.validation import number_in
from viewer.web.views.checkpoints import download

# Entries on one page, and in one download. The command writes all.
PAGE, MAX_EXPORTED = 100, 100_000
# Days that begin and end in every time zone.
KNOWN_DAYS = MinValueValidator(date(2, 1, 1)), MaxValueValidator(date(9998, 12, 31))
# The pages of what was acted on, as far as it has a page with its key.
PAGES = {
    Audited.LOCATION: "location",
    Audited.RUN: "run",
    Audited.CHECKPOINT: "checkpoint",
    Audited.JOB: "job",
    Audited.SWEEP: "sweep",
    Audited.COLLECTION: "collection",
}


class AuditForm(forms.Form):
    """The filters of the entries. Empty ones do not filter."""

    actor = forms.CharField(label=_("Who"), required=False, max_length=150)
    action = forms.ChoiceField(
        label=_("Action"), required=False, choices=[("", _("Any")), *AuditEntry.Action.choices]
    )
    kind = forms.ChoiceField(
        label=_("Object"), required=False, choices=[("", _("Any")), *AuditEntry.Kind.choices]
    )
    key = forms.CharField(label=_("ID of the object"), required=False, max_length=200)
    since = forms.DateField(
        label=pgettext_lazy("the first day of a period", "From"), required=False, validators=KNOWN_DAYS
    )
    until = forms.DateField(label=_("To"), required=False, validators=KNOWN_DAYS)

    def __init__(self, data: object) -> None:
        super().__init__(data)  # type: ignore[arg-type]
        for name, field in self.fields.items():
            field.widget.attrs["class"] = "input"
            if name in ("since", "until"):
                field.widget.input_type = "date"
                field.widget.format = "%Y-%m-%d"

    @property
    def entries(self) -> QuerySet[AuditEntry]:
        """The entries that match, the newest first; none if a value is invalid."""
        if not self.is_valid():
            return AuditEntry.objects.none()
        given = dict(self.cleaned_data)
        since, until = given.pop("since"), given.pop("until")
        last = until and until + timedelta(days=1)
        return entries_of(**given, since=_midnight(since), until=_midnight(last))


@requires(Right.AUDIT, everywhere=True)
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """Show a page of the entries that match the filters of the address, from the entry ``?before=`` on."""
    _require_audit()
    form, before = AuditForm(request.GET), number_in(request.GET.get("before", ""), max_digits=15)
    entries = form.entries.filter(pk__lt=before) if before else form.entries
    shown = list(entries[: PAGE + 1])
    context = {
        "form": form,
        "rows": [(entry, _address_of(entry)) for entry in shown[:PAGE]],
        "before": before,
        "older": shown[PAGE - 1].pk if len(shown) > PAGE else None,
        "is_narrow": any(form[name].value() for name in form.fields),
    }
    return render(request, "audit/page.html", context, status=200 if form.is_valid() else 422)


@requires(Right.AUDIT, everywhere=True)
@require_GET
def export(request: HttpRequest) -> HttpResponse:
    """Return the newest of the entries as JSON Lines, which a browser never displays here."""
    _require_audit()
    entries = AuditForm(request.GET).entries[:MAX_EXPORTED]
    lines = (line_of(entry) + "\n" for entry in entries.iterator(chunk_size=1000))
    return download("".join(lines), "audit.jsonl", "application/jsonl")


def _require_audit() -> None:
    """Raise Http404 without an audit trail."""
    if not settings.AUDIT:
        raise Http404


def _address_of(entry: AuditEntry) -> str:
    """The page of what was acted on; empty if it has none, or was removed."""
    route = PAGES.get(Audited(entry.kind))
    if route and entry.action != Action.REMOVED:
        with suppress(NoReverseMatch):
            return reverse(route, args=[entry.key])
    return ""


def _midnight(day: date | None) -> datetime | None:
    return timezone.make_aware(datetime.combine(day, time.min)) if day else None


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
def list_hidden(request: HttpRequest, pk: int) -> HttpResponse:
    """List where something is hidden, without the values."""
    checkpoint = _checkpoint(pk)
    return _hidden_page(request, checkpoint, _listed(checkpoint))


@requires(Right.REVEAL)
@require_POST
def reveal(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one hidden value in this response only, once it is recorded who has seen it, and why."""
    checkpoint = _checkpoint(pk)
    listed = _listed(checkpoint)
    form = RevealForm(request.POST, listed)
    if not form.is_valid():
        return _hidden_page(request, checkpoint, listed, form=form, status=422)
    chosen = next(one for one in listed if one.pointer == form.cleaned_data["pointer"])
    try:
        with transaction.atomic():
            value = ask(RevealValue(pk, chosen.pointer))
            record(Action.REVEALED, Audited.CHECKPOINT, pk, f"{form.cleaned_data['reason']}: {chosen.path}")
    except HostRefusal as refused:
        return _hidden_page(request, checkpoint, listed, error=translate(refused), status=422)
    return _hidden_page(request, checkpoint, listed, revealed=chosen, value=value)


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
    _require_audit()
    related = ("location", "run__location", "stored_copy")
    return get_object_or_404(Checkpoint.objects.select_related(*related), pk=pk)


def _listed(checkpoint: Checkpoint) -> list[HiddenValue]:
    try:
        return list(islice(hidden_values(body_of(checkpoint)), MAX_LISTED))
    except NotReadable:
        return []


def _hidden_page(
    request: HttpRequest, checkpoint: Checkpoint, listed: list[HiddenValue], status: int = 200, **shown: Any
) -> HttpResponse:
    form = shown.pop("form", None) or RevealForm(None, listed)
    context = {"checkpoint": checkpoint, "run": checkpoint.run, "listed": listed, "form": form, **shown}
    return render(request, "hidden_values/page.html", context, status=status)
