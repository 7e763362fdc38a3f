"""Where a person is notified, of what, and of which runs not."""

from base64 import b64encode
from secrets import token_bytes
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.validators import URLValidator, validate_email
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from viewer.models import MutedRun, Notification, NotificationTarget, Right, Run, run_uid
from viewer.records.audit import Action, Audited, record
from viewer.records.notifications import mute
from viewer.records.permissions import requires

Kind = NotificationTarget.Kind
# The newest messages that the page lists.
MAX_LISTED = 30
EVENTS = ("of_questions", "of_jobs", "of_all_jobs", "of_limits", "of_mentions")


class TargetForm(forms.ModelForm):  # type: ignore[type-arg]
    """Where a person is notified, and of what. Without an address, nothing is sent."""

    address = forms.CharField(max_length=500, required=False)

    class Meta:
        model = NotificationTarget
        fields = ("address", *EVENTS)

    def clean_address(self) -> str:
        address = str(self.cleaned_data["address"]).strip()
        if address and self.instance.kind == Kind.MAIL:
            validate_email(address)
        elif address:
            schemes = ["https", "http"] if settings.WEBHOOKS_TO_PRIVATE_ADDRESSES else ["https"]
            URLValidator(schemes)(address)
        return address


@requires(Right.VIEW)
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """Show what the person has chosen, and the newest messages."""
    return _page(request)


@requires(Right.VIEW)
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Store where the person is notified by mail or webhook, and of what."""
    kind = Kind.WEBHOOK if request.POST.get("kind") == Kind.WEBHOOK else Kind.MAIL
    user = get_object_or_404(User, pk=request.user.pk)
    target = NotificationTarget.objects.filter(user=user, kind=kind).first()
    target = target or NotificationTarget(user=user, kind=kind)
    former = target.address
    form = TargetForm(request.POST, instance=target)
    if not form.is_valid():
        messages.error(request, " ".join(str(one) for errors in form.errors.values() for one in errors))
        return redirect("notifications")
    secret = ""
    if kind == Kind.WEBHOOK and target.address and target.address != former:
        secret = target.secret = f"whsec_{b64encode(token_bytes(32)).decode()}"
    if target.address or target.pk:
        with transaction.atomic():
            _store(target, former)
            record(Action.CHANGED, Audited.USER, user.pk, f"notifications by {kind}")
    if secret:
        return _page(request, secret)
    messages.success(request, _("Saved."))
    return redirect("notifications")


def _store(target: NotificationTarget, former: str) -> None:
    """Store the target, or delete it if it has no address. Messages to a former address are not sent."""
    if not target.address:
        target.delete()
        return
    if target.address != former:
        target.since = timezone.now()
    target.save()
    if target.address != former:
        target.notifications.filter(sent_at=None).update(due_at=None)


@requires(Right.VIEW)
@require_POST
def mute_run(request: HttpRequest, uid: UUID) -> HttpResponse:
    """Mute a run, or unmute it."""
    run = get_object_or_404(Run.objects.select_related("location"), uid=uid)
    mute(get_object_or_404(User, pk=request.user.pk), run, is_muted="mute" in request.POST)
    messages.success(request, _("Saved."))
    return redirect(run)


def _page(request: HttpRequest, secret: str = "") -> HttpResponse:
    own: dict[str, Any] = {one.kind: one for one in NotificationTarget.objects.filter(user=request.user.pk)}
    sent = Notification.objects.filter(target__user=request.user.pk).select_related("target")
    muted = MutedRun.objects.filter(user=request.user.pk).values_list("location_uid", "run_key")
    runs = Run.objects.select_related("location").filter(uid__in=[run_uid(*ids) for ids in muted])
    context = {
        "mail": own.get(Kind.MAIL) or NotificationTarget(kind=Kind.MAIL),
        "webhook": own.get(Kind.WEBHOOK) or NotificationTarget(kind=Kind.WEBHOOK),
        "has_mail": bool(settings.EMAIL_HOST),
        "secret": secret,
        "sent": sent.order_by("-pk")[:MAX_LISTED],
        "muted": runs,
    }
    return render(request, "notifications/page.html", context)
