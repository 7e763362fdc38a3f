"""The page of the audit trail: its filters, and the filtered entries as JSON Lines."""

from contextlib import suppress
from datetime import date, datetime, time, timedelta

from django import forms
from django.conf import settings
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy
from django.views.decorators.http import require_GET

from viewer.models import AuditEntry, Right
from viewer.records.audit import Action, Audited, entries_of, line_of
from viewer.records.permissions import requires
from viewer.validation import number_in
from viewer.web.views.checkpoints import download

# Entries on one page, and in one download. The command writes all.
PAGE, MAX_EXPORTED = 100, 100_000
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
    since = forms.DateField(label=pgettext_lazy("the first day of a period", "From"), required=False)
    until = forms.DateField(label=_("To"), required=False)

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
