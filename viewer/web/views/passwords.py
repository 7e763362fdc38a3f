"""Setting a new password by a link, asking for such a link, and the mail address that it is sent to."""

from http import HTTPStatus
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.internal.flows.reauthentication import did_recently_reauthenticate
from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from viewer.models import Right
from viewer.records.accounts import (
    address_of,
    person_of,
    person_to_mail,
    reset_password,
    send_mail_token,
    send_reset_link,
    set_address,
)
from viewer.records.mail import has_mail
from viewer.records.permissions import requires
from viewer.validation import InvalidInput, one_line_text

PAGE = ["GET", "HEAD", "POST"]


@login_not_required
@require_http_methods(PAGE)
def forgot(request: HttpRequest) -> HttpResponse:
    """Ask for the name or mail address of an account, and send a link to its address.

    The page is the same whether there is such an account or not (middleware/throttle.py limits the mail).
    """
    is_sent = False
    if request.method == "POST" and has_mail():
        try:
            person = person_to_mail(one_line_text(request.POST.get("name", "").strip(), 254))
        except InvalidInput:
            return render(request, "passwords/forgot.html", {"has_mail": True, "is_empty": True}, status=422)
        if person:
            send_reset_link(person)
        is_sent = True
    return render(request, "passwords/forgot.html", {"has_mail": has_mail(), "is_sent": is_sent})


@login_not_required
@sensitive_post_parameters("new_password1", "new_password2")
@require_http_methods(PAGE)
def reset(request: HttpRequest, token: str) -> HttpResponse:
    """Set a new password, once. Opening the link does not use it. Nobody is logged in by it.

    So who has a second factor is still asked for it.
    """
    person = person_of(token)
    if person is None:
        return render(request, "passwords/dead.html", status=HTTPStatus.FORBIDDEN)
    form: Any = SetPasswordForm(person, request.POST if request.method == "POST" else None)
    if form.is_valid():
        if reset_password(token, form.save(commit=False).password) is None:
            return render(request, "passwords/dead.html", status=HTTPStatus.FORBIDDEN)
        messages.success(request, _("Your password was changed. Log in with it."))
        return redirect("login")
    context = {"form": form, "name": person.get_username()}
    return render(request, "passwords/reset.html", context, status=422 if form.is_bound else 200)


# The mail address of one's account.


class AddressForm(forms.Form):
    """A mail address; empty for none."""

    address = forms.EmailField(required=False, max_length=254)


def is_confirmed(request: HttpRequest) -> bool:
    """Whether the user has entered their password or code a moment ago. Who has only a link has none."""
    methods = get_adapter().get_reauthentication_methods(request.user)
    return not methods or did_recently_reauthenticate(request)


def to_confirm(request: HttpRequest, path: str) -> HttpResponse:
    """Redirect to the page that asks for the password or a code, and from there to a path."""
    (first, *_more) = get_adapter().get_reauthentication_methods(request.user)
    return redirect(f"{first['url']}?{urlencode({'next': path})}")


@requires(Right.VIEW)
@require_http_methods(PAGE)
def change_address(request: HttpRequest) -> HttpResponse:
    """Send a link to a new mail address, or remove the present one."""
    assert isinstance(request.user, User)
    if not is_confirmed(request):
        return to_confirm(request, reverse("account-mail"))
    form = AddressForm(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        context = {"form": form, "has_mail": has_mail()}
        return render(request, "passwords/address.html", context, status=422 if form.is_bound else 200)
    address = form.cleaned_data["address"]
    if not address:
        set_address(request.user, "")
        messages.success(request, _("Removed."))
    elif has_mail():
        send_mail_token(request.user, address)
        messages.success(request, _("Open the link that was sent to %(address)s.") % {"address": address})
    return redirect("account")


@requires(Right.VIEW)
@require_http_methods(PAGE)
def confirm_address(request: HttpRequest, token: str) -> HttpResponse:
    """Store a mail address whose mail the user reads. Opening the link does not store it."""
    assert isinstance(request.user, User)
    address = address_of(request.user, token)
    if address is None:
        return render(request, "passwords/dead.html", {"of_address": True}, status=HTTPStatus.FORBIDDEN)
    if request.method != "POST":
        return render(request, "passwords/confirm.html", {"address": address})
    set_address(request.user, address)
    messages.success(request, _("Saved."))
    return redirect("account")
