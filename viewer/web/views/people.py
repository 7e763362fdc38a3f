"""One person, as an admin of all locations sees them: how they log in, and help if they no longer can."""

from collections.abc import Callable
from datetime import timedelta

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from viewer.models import ApiToken, Right
from viewer.records.accounts import (
    REASONS,
    ChangeRefused,
    check_change,
    make_reset_link,
    remove_second_factors,
    set_active,
)
from viewer.records.permissions import requires
from viewer.records.roles import held_roles
from viewer.records.sessions import end_sessions, sessions_of
from viewer.web.views.passwords import is_confirmed, to_confirm
from viewer.web.views.shared import origin_of


@requires(Right.MEMBERS, everywhere=True)
@require_GET
def show(request: HttpRequest, pk: int) -> HttpResponse:
    """Show how a person logs in and what they may do, and the forms that help them."""
    person = get_object_or_404(User, pk=pk)
    if not is_confirmed(request):
        return to_confirm(request, reverse("person", args=[pk]))
    context = {
        "person": person,
        "factors": Authenticator.objects.filter(user=person).exclude(type="recovery_codes"),
        "sessions": sessions_of(person),
        "tokens": [token for token in ApiToken.objects.filter(user=person) if token.works],
        "held": [one for one in held_roles() if one.person.pk == pk],
        "reasons": REASONS.items(),
        "refusal": _refusal(request, person),
    }
    return render(request, "people/page.html", context)


@requires(Right.MEMBERS, everywhere=True)
@require_POST
def reset_link(request: HttpRequest, pk: int) -> HttpResponse:
    """Make a link for a new password, and show it, once."""
    person = get_object_or_404(User, pk=pk)
    if not is_confirmed(request):
        return to_confirm(request, reverse("person", args=[pk]))
    try:
        address = origin_of(request) + make_reset_link(person, _admin(request))
    except ChangeRefused as refused:
        messages.error(request, " ".join(refused.messages))
        return redirect("person", pk)
    expires_at = timezone.now() + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
    return render(
        request, "people/link.html", {"person": person, "address": address, "expires_at": expires_at}
    )


@requires(Right.MEMBERS, everywhere=True)
@require_POST
def remove_factors(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove the second factors of a person, for a reason."""
    reason = request.POST.get("reason", "")
    return _changed(request, pk, lambda person, admin: remove_second_factors(person, reason, admin))


@requires(Right.MEMBERS, everywhere=True)
@require_POST
def change_active(request: HttpRequest, pk: int) -> HttpResponse:
    """Deactivate an account, or activate it again."""
    is_active = request.POST.get("active") == "yes"
    return _changed(request, pk, lambda person, admin: set_active(person, admin, is_active=is_active))


@requires(Right.MEMBERS, everywhere=True)
@require_POST
def end_all(request: HttpRequest, pk: int) -> HttpResponse:
    """End all sessions of a person."""
    person = get_object_or_404(User, pk=pk)
    end_sessions(person)
    messages.success(request, _("Ended all sessions of %(name)s.") % {"name": person})
    return redirect("roles")


def _changed(request: HttpRequest, pk: int, change: Callable[[User, User], object]) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    if not is_confirmed(request):
        return to_confirm(request, reverse("person", args=[pk]))
    try:
        change(person, _admin(request))
    except ChangeRefused as refused:
        messages.error(request, " ".join(refused.messages))
    else:
        messages.success(request, _("Saved."))
    return redirect("person", pk)


def _refusal(request: HttpRequest, person: User) -> str:
    try:
        check_change(person, _admin(request))
    except ChangeRefused as refused:
        return " ".join(refused.messages)
    return ""


def _admin(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user
