"""One's account: logging in with a password, how one logs in, and one's sessions."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from allauth.account.internal.flows.login import perform_password_login
from allauth.account.models import Login
from allauth.account.signals import password_changed, password_set
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_added, authenticator_removed, authenticator_reset
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.signals import social_account_added, social_account_removed
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from viewer.models import Right
from viewer.records.audit import Action, Audited, record
from viewer.records.invitations import MAX_TOKEN
from viewer.records.mail import PASSWORD, SECOND_FACTOR, has_mail, notify_of_change
from viewer.records.permissions import requires
from viewer.records.sessions import end_session, end_sessions, sessions_of

# The key in a session of the invitation with which somebody goes to a provider.
INVITATION = "invitation"
View = Callable[..., HttpResponseBase]


def providers(request: HttpRequest) -> list[dict[str, str]]:
    """Return the names and addresses of the providers that people may log in with."""
    if not any(one["APPS"] for one in settings.SOCIALACCOUNT_PROVIDERS.values()):
        return []
    found = get_adapter().list_providers(request)
    return [{"name": one.name, "address": one.get_login_url(request)} for one in found]


def allauth_view(name: str) -> View:
    """Return a view of allauth. It is imported when it is used, since most people use none."""

    def view(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        found: HttpResponseBase = import_string(f"allauth.{name}")(request, *args, **kwargs)
        return found

    return view


def to_provider(name: str) -> View:
    """Return a view of an allauth provider that redirects from a page.

    The content security policy lets no form of ours lead to another host, not even by a redirect.
    """

    @login_not_required
    def leaving(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if request.method == "POST":
            request.session[INVITATION] = request.POST.get(INVITATION, "")[:MAX_TOKEN]
        try:
            response = allauth_view(f"socialaccount.providers.{name}")(request, *args, **kwargs)
        except SocialApp.DoesNotExist:
            raise Http404 from None
        except OSError:
            messages.error(request, _("The provider does not answer. Try again later."))
            return redirect("login")
        if response.status_code == HTTPStatus.FOUND and "://" in response["Location"]:
            return render(request, "login/leaving.html", {"address": response["Location"]})
        return response

    return leaving


class LoginByPassword(auth_views.LoginView):
    """The login form. Who has a second factor is asked for it before they are logged in."""

    template_name = "login/page.html"

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        """Return what the page shows: also the providers."""
        return super().get_context_data(providers=providers(self.request), **more)

    def form_valid(self, form: Any) -> HttpResponse:
        """Log in, or redirect to the page of the second factor."""
        login = Login(user=form.get_user(), redirect_url=self.get_success_url())
        response: HttpResponse = perform_password_login(self.request, form.cleaned_data, login)
        return response


@requires(Right.VIEW)
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """Show how the user logs in, and their sessions."""
    user = _user(request)
    factors = Authenticator.objects.filter(user=user).exclude(type=Authenticator.Type.RECOVERY_CODES)
    context = {"sessions": sessions_of(user), "has_second_factor": factors.exists()}
    context |= {"providers": providers(request), "has_mail": has_mail()}
    return render(request, "accounts/page.html", context)


@requires(Right.VIEW)
@require_POST
def end(request: HttpRequest) -> HttpResponse:
    """End one of the user's sessions, or without a key, all but this one."""
    user, key = _user(request), request.POST.get("session", "")
    if not key:
        end_sessions(user, but=request.session.session_key or "")
    elif not (key.isdecimal() and len(key) < 19 and end_session(user, int(key))):
        raise Http404
    messages.success(request, _("Ended."))
    return redirect("account")


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


# What allauth does to an account.


@receiver(user_logged_in)
def remember_session(request: HttpRequest, user: User, **_more: Any) -> None:
    """List the session of a login, whichever way it was."""
    if request.META.get("REMOTE_ADDR"):
        UserSession.objects.create_from_request(request, user=user)


@receiver([password_changed, password_set])
def record_password(user: User, **_more: Any) -> None:
    """Record a new password, and notify its person."""
    record(Action.CHANGED, Audited.USER, user.pk, f"{user.get_username()}: password")
    notify_of_change(user, str(PASSWORD))


@receiver([authenticator_added, authenticator_removed, authenticator_reset])
def record_factor(user: User, authenticator: Authenticator, **_more: Any) -> None:
    """Record a change of a second factor, and notify its person."""
    record(Action.CHANGED, Audited.USER, user.pk, f"{user.get_username()}: {authenticator.type}")
    if authenticator.type != Authenticator.Type.RECOVERY_CODES:
        notify_of_change(user, str(SECOND_FACTOR))


@receiver([social_account_added, social_account_removed])
def record_provider(sociallogin: Any = None, socialaccount: Any = None, **_more: Any) -> None:
    """Record that a provider's account was linked to a person's, or is no longer."""
    account = socialaccount or sociallogin.account
    detail = f"{account.user.get_username()}: {account.provider}"
    record(Action.CHANGED, Audited.USER, account.user_id, detail)
