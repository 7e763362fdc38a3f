"""Inviting people, how they log in, as an admin sees it, and help if they no longer can."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import UserCreationForm
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.models import ApiToken, Invitation, InvitationState, Level, Right
from viewer.records import accounts, tokens
from viewer.records.accounts import end_sessions, sessions_of
from viewer.records.permissions import held_roles, may_everywhere, requires
from viewer.web.views.accounts import account_of, is_confirmed, providers, to_confirm
from viewer.web.views.roles import InvitationForm, roles_page
from viewer.web.views.shares import origin_of


@requires(Right.MEMBERS, everywhere=True)
@require_GET
def show(request: HttpRequest, pk: int) -> HttpResponse:
    """Show how a person logs in and what they may do, and the forms that help them."""
    person = get_object_or_404(User, pk=pk)
    if not is_confirmed(request):
        return to_confirm(request, reverse("person", args=[pk]))
    return _page(request, person)


def _page(request: HttpRequest, person: User, refused: str = "") -> HttpResponse:
    """The page, with why a change was refused, if one was."""
    context = {
        "person": person,
        "factors": Authenticator.objects.filter(user=person).exclude(type="recovery_codes"),
        "sessions": sessions_of(person),
        "tokens": [token for token in ApiToken.objects.filter(user=person) if token.works],
        "held": [one for one in held_roles() if one.person == person],
        "reasons": accounts.REASONS.items(),
        "refusal": _refusal(request, person),
        "refused": refused,
    }
    return render(request, "people/page.html", context, status=422 if refused else 200)


@requires(Right.MEMBERS, everywhere=True)
@require_POST
def reset_link(request: HttpRequest, pk: int) -> HttpResponse:
    """Make a link for a new password, and show it, once."""
    person = get_object_or_404(User, pk=pk)
    if not is_confirmed(request):
        return to_confirm(request, reverse("person", args=[pk]))
    try:
        address = origin_of(request) + accounts.make_reset_link(person, account_of(request))
    except accounts.ChangeRefused as refused:
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
    return _changed(request, pk, lambda person, admin: accounts.remove_second_factors(person, reason, admin))


@requires(Right.MEMBERS, everywhere=True)
@require_POST
def change_active(request: HttpRequest, pk: int) -> HttpResponse:
    """Deactivate an account, or activate it again."""
    is_active = request.POST.get("active") == "yes"
    return _changed(
        request, pk, lambda person, admin: accounts.set_active(person, admin, is_active=is_active)
    )


@requires(Right.MEMBERS, everywhere=True)
@require_POST
def end_all(request: HttpRequest, pk: int) -> HttpResponse:
    """End all sessions of a person."""
    person = get_object_or_404(User, pk=pk)
    if not is_confirmed(request):
        return to_confirm(request, reverse("roles"))
    end_sessions(person)
    messages.success(request, _("Ended all sessions of %(name)s.") % {"name": person})
    return redirect("roles")


def _changed(request: HttpRequest, pk: int, change: Callable[[User, User], object]) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    if not is_confirmed(request):
        return to_confirm(request, reverse("person", args=[pk]))
    try:
        change(person, account_of(request))
    except accounts.ChangeRefused as refused:
        return _page(request, person, " ".join(refused.messages))
    messages.success(request, _("Saved."))
    return redirect("person", pk)


def _refusal(request: HttpRequest, person: User) -> str:
    try:
        accounts.check_change(person, account_of(request))
    except accounts.ChangeRefused as refused:
        return " ".join(refused.messages)
    return ""


@requires(Right.MEMBERS)
@require_POST
def new_invitation(request: HttpRequest) -> HttpResponse:
    """Make an invitation, and show its link, once: only a hash of its token is stored."""
    form = InvitationForm(request.POST, is_admin=may_everywhere(request.user, Right.MEMBERS))
    if not form.is_valid():
        return roles_page(request, invitation=form)
    given = form.cleaned_data
    try:
        invitation, token = tokens.invite(
            account_of(request),
            level=Level(given["level"]) if given["level"] else None,
            location=given["location"],
            team=given["team"],
            days=given["days"],
        )
    except tokens.InvitationRefused as refused:
        form.add_error("level", refused.messages)
        return roles_page(request, invitation=form)
    address = origin_of(request) + reverse("invitation", args=[token])
    return render(request, "invitations/made.html", {"invitation": invitation, "address": address})


@requires(Right.MEMBERS)
@require_POST
def revoke_invitation(request: HttpRequest, pk: int) -> HttpResponse:
    """Make an invitation stop working."""
    invitation = get_object_or_404(Invitation, pk=pk)
    if tokens.revoke_invitation(invitation):
        messages.success(request, _("Revoked."))
    else:
        messages.error(request, _("This invitation was already used or revoked."))
    return redirect("roles")


@login_not_required
@sensitive_post_parameters("password1", "password2")
@require_http_methods(["GET", "HEAD", "POST"])
def show_invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Show what an invitation gives, and accept it, once: as a new account, or as the one that is logged in.

    Opening the link does not use it: a chat that makes a preview, or a browser that prefetches, opens it too.
    """
    invitation = tokens.invitation_with(token)
    state = tokens.state_of(invitation) if invitation else None
    if invitation is None or state != InvitationState.WORKS:
        return render(request, "invitations/dead.html", {"state": state}, status=403)
    form: Any = UserCreationForm(request.POST if request.method == "POST" else None)
    try:
        if request.method == "POST" and isinstance(request.user, User):
            tokens.accept(token, request.user)
            return redirect("home")
        if form.is_valid():
            return _join(request, token, form)
    except tokens.InvitationRefused:
        return render(request, "invitations/dead.html", {"state": InvitationState.USED}, status=403)
    except ValidationError as error:
        form.add_error(None, error)
    context = {"invitation": invitation, "form": form, "token": token, "providers": providers(request)}
    return render(request, "invitations/page.html", context, status=422 if form.is_bound else 200)


def _join(request: HttpRequest, token: str, form: Any) -> HttpResponse:
    """Create the account, and log it in. Of two simultaneous requests, one does."""
    person = form.save(commit=False)
    with transaction.atomic():
        tokens.accept(token, person)
        login(request, person, backend="django.contrib.auth.backends.ModelBackend")
    return redirect("home")
