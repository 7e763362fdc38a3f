"""One's account: logging in, how one logs in, settings, sessions, and API tokens."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from allauth.account.adapter import get_adapter as account_adapter
from allauth.account.internal.flows.login import perform_password_login
from allauth.account.internal.flows.reauthentication import did_recently_reauthenticate
from allauth.account.models import Login
from allauth.account.signals import password_changed, password_set
from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_added, authenticator_removed, authenticator_reset
from allauth.socialaccount.adapter import get_adapter as provider_adapter
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.signals import social_account_added, social_account_removed
from allauth.usersessions.models import UserSession
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import views as auth_views
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm, SetPasswordForm
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.core.exceptions import ValidationError
from django.db.models import QuerySet, TextChoices
from django.dispatch import receiver
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.module_loading import import_string
from django.utils.translation import get_language_from_request, gettext_lazy, ngettext, override
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from sesame.utils import get_user
from sesame.views import LoginView

from viewer.data_folder.locks import exclusive_transaction
from viewer.models import ApiToken, Level, Location, ReaderSettings, Right, access_of
from viewer.models.accounts import MAX_TOKEN
from viewer.records import accounts
from viewer.records.accounts import (
    PASSWORD,
    SECOND_FACTOR,
    TOKEN_DAYS,
    TokenRefused,
    end_session,
    end_sessions,
    has_mail,
    make_token,
    notify_of_change,
    revoke_token,
    sessions_of,
)
from viewer.records.audit import Action, Audited, record
from viewer.records.locations import location_named
from viewer.records.permissions import is_shared, may, may_everywhere, requires
from viewer.validation import InvalidInput, one_line_text

# The key in a session of the invitation with which somebody goes to a provider.
INVITATION = "invitation"
View = Callable[..., HttpResponseBase]


def account_of(request: HttpRequest) -> User:
    """Return the account that is logged in. Only for views that need a login."""
    assert isinstance(request.user, User)
    return request.user


def providers(request: HttpRequest) -> list[dict[str, str]]:
    """Return the names and addresses of the providers that people may log in with."""
    if not any(one["APPS"] for one in settings.SOCIALACCOUNT_PROVIDERS.values()):
        return []
    found = provider_adapter().list_providers(request)
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
    user = account_of(request)
    factors = Authenticator.objects.filter(user=user).exclude(type=Authenticator.Type.RECOVERY_CODES)
    context = {"sessions": sessions_of(user), "has_second_factor": factors.exists()}
    context |= {"providers": providers(request), "has_mail": has_mail()}
    return render(request, "accounts/page.html", context)


@requires(Right.VIEW)
@require_POST
def end(request: HttpRequest) -> HttpResponse:
    """End one of the user's sessions, or without a key, all but this one."""
    user, key = account_of(request), request.POST.get("session", "")
    if not key:
        end_sessions(user, but=request.session.session_key or "")
    elif not (key.isdecimal() and len(key) < 19 and end_session(user, int(key))):
        raise Http404
    messages.success(request, _("Ended."))
    return redirect("account")


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
    notify_of_change(user, PASSWORD)


@receiver([authenticator_added, authenticator_removed, authenticator_reset])
def record_factor(user: User, authenticator: Authenticator, **_more: Any) -> None:
    """Record a change of a second factor, and notify its person."""
    record(Action.CHANGED, Audited.USER, user.pk, f"{user.get_username()}: {authenticator.type}")
    if authenticator.type != Authenticator.Type.RECOVERY_CODES:
        notify_of_change(user, SECOND_FACTOR)


@receiver([social_account_added, social_account_removed])
def record_provider(sociallogin: Any = None, socialaccount: Any = None, **_more: Any) -> None:
    """Record that a provider's account was linked to a person's, or is no longer."""
    account = socialaccount or sociallogin.account
    detail = f"{account.user.get_username()}: {account.provider}"
    record(Action.CHANGED, Audited.USER, account.user_id, detail)


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
            person = accounts.person_to_mail(one_line_text(request.POST.get("name", "").strip(), 254))
        except InvalidInput:
            return render(request, "passwords/forgot.html", {"has_mail": True, "is_empty": True}, status=422)
        if person:
            accounts.send_reset_link(person)
        is_sent = True
    return render(request, "passwords/forgot.html", {"has_mail": has_mail(), "is_sent": is_sent})


@login_not_required
@sensitive_post_parameters("new_password1", "new_password2")
@require_http_methods(PAGE)
def reset(request: HttpRequest, token: str) -> HttpResponse:
    """Set a new password, once. Opening the link does not use it. Nobody is logged in by it.

    So who has a second factor is still asked for it.
    """
    person = accounts.person_of(token)
    if person is None:
        return render(request, "passwords/dead.html", status=HTTPStatus.FORBIDDEN)
    form: Any = SetPasswordForm(person, request.POST if request.method == "POST" else None)
    if form.is_valid():
        if accounts.reset_password(token, form.save(commit=False).password) is None:
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
    methods = account_adapter().get_reauthentication_methods(request.user)
    return not methods or did_recently_reauthenticate(request)


def to_confirm(request: HttpRequest, path: str) -> HttpResponse:
    """Redirect to the page that asks for the password or a code, and from there to a path."""
    (first, *_more) = account_adapter().get_reauthentication_methods(request.user)
    return redirect(f"{first['url']}?{urlencode({'next': path})}")


@requires(Right.VIEW)
@require_http_methods(PAGE)
def change_address(request: HttpRequest) -> HttpResponse:
    """Send a link to a new mail address, or remove the present one."""
    if not is_confirmed(request):
        return to_confirm(request, reverse("account-mail"))
    form = AddressForm(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        context = {"form": form, "has_mail": has_mail()}
        return render(request, "passwords/address.html", context, status=422 if form.is_bound else 200)
    address = form.cleaned_data["address"]
    if not address:
        accounts.set_address(account_of(request), "")
        messages.success(request, _("Removed."))
    elif has_mail():
        accounts.send_mail_token(account_of(request), address)
        messages.success(request, _("Open the link that was sent to %(address)s.") % {"address": address})
    return redirect("account")


@requires(Right.VIEW)
@require_http_methods(PAGE)
def confirm_address(request: HttpRequest, token: str) -> HttpResponse:
    """Store a mail address whose mail the user reads. Opening the link does not store it."""
    address = accounts.address_of(account_of(request), token)
    if address is None:
        return render(request, "passwords/dead.html", {"of_address": True}, status=HTTPStatus.FORBIDDEN)
    if request.method != "POST":
        return render(request, "passwords/confirm.html", {"address": address})
    accounts.set_address(account_of(request), address)
    messages.success(request, _("Saved."))
    return redirect("account")


# Login with a one-time link.


class LoginByLink(LoginView):
    """Show a button for an unused link. It logs in, and redirects.

    Opening the link does not use it: a chat that makes a preview, or a browser that prefetches, opens it too.
    """

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the button, or why the link does not work."""
        user = get_user(request, update_last_login=False)
        if user is None:
            return self.login_failed()
        return render(request, "login/link.html", {"name": user.get_username()})

    def post(self, request: HttpRequest) -> HttpResponse:
        """Use the link. Of two simultaneous requests, one does."""
        if get_user(request, update_last_login=False) is None:
            return self.login_failed()
        with exclusive_transaction("logins"):
            response: HttpResponse = super().get(request)  # type: ignore[no-untyped-call]
        return response

    def login_failed(self) -> HttpResponse:
        """Redirect a logged-in user, as after a second click; show others why the link failed."""
        if self.request.user.is_authenticated:
            return HttpResponseRedirect(self.get_success_url())
        shown = {"form": AuthenticationForm(), "next": self.get_success_url(), "link_failed": True}
        return render(self.request, "login/page.html", shown, status=403)


# The settings of the logged-in user.


@requires(Right.VIEW)
@require_GET
def show_settings(request: HttpRequest) -> HttpResponse:
    """Show who is logged in, and what they have chosen."""
    choices = {"themes": ReaderSettings.Theme, "time_zones": ReaderSettings.TimeZone}
    choices |= {"clocks": ReaderSettings.Clock, "densities": ReaderSettings.Density}
    context: dict[str, Any] = {name: values.choices for name, values in choices.items()}
    context |= {"languages": settings.LANGUAGES}
    context |= {"has_audit": settings.AUDIT and may_everywhere(request.user, Right.AUDIT)}
    context |= {"has_roles": is_shared() and may(request.user, Right.MEMBERS)}
    return render(request, "reader_settings/page.html", context)


@requires(Right.VIEW)
@require_POST
def save_settings(request: HttpRequest) -> HttpResponse:
    """Store what the user has chosen. Unknown values are left out."""
    language = request.POST.get("language", "")
    values: dict[str, Any] = {
        "theme": _chosen(request, "theme", ReaderSettings.Theme.SYSTEM),
        "time_zone": _chosen(request, "time_zone", ReaderSettings.TimeZone.SERVER),
        "clock": _chosen(request, "clock", ReaderSettings.Clock.HOURS_24),
        "density": _chosen(request, "density", ReaderSettings.Density.COMFORTABLE),
        "language": language if language in dict(settings.LANGUAGES) else "",
        "notifies": "notifies" in request.POST,
    }
    ReaderSettings.objects.update_or_create(user=get_object_or_404(User, pk=request.user.pk), defaults=values)
    with override(values["language"] or get_language_from_request(request)):
        messages.success(request, _("Saved."))
    return redirect("settings")


def _chosen(request: HttpRequest, name: str, default: TextChoices) -> str:
    """Return the value of a field, if it is one of the choices of its default; else the default."""
    value = request.POST.get(name, "")
    return value if value in type(default).values else default


# The newest tokens that the list shows, and the locations that one form names.
MAX_TOKENS, MAX_LOCATIONS = 500, 100


class TokenForm(forms.Form):
    """What a new token is called, what it may do, where, and how long. Offers the roles of its person."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=100)
    level = forms.TypedChoiceField(label=gettext_lazy("Role"), coerce=int)
    # A path on each line; empty for all locations that the person sees.
    locations = forms.CharField(
        label=gettext_lazy("Locations"),
        required=False,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "input input-mono"}),
        help_text=gettext_lazy("One path on each line. Empty for all that you see, also those added later."),
    )
    days = forms.TypedChoiceField(label=gettext_lazy("Expires after"), coerce=int)

    def __init__(self, data: Any, user: Any) -> None:
        super().__init__(data)
        levels: Any = self.fields["level"]
        levels.choices = [(one, label) for one, label in Level.choices if one <= access_of(user).highest]
        days: Any = self.fields["days"]
        days.choices = [
            (number, ngettext("%(count)s day", "%(count)s days", number) % {"count": number})
            for number in TOKEN_DAYS
        ]
        for field in self.fields.values():
            field.widget.attrs.setdefault("class", "input")

    def clean_name(self) -> str:
        try:
            return one_line_text(self.cleaned_data["name"], 100)
        except InvalidInput:
            raise ValidationError(_("Enter a name.")) from None

    def clean_locations(self) -> list[Location] | None:
        lines = [line for line in self.cleaned_data["locations"].splitlines() if line.strip()]
        if len(lines) > MAX_LOCATIONS:
            raise ValidationError(_("Name %(most)s locations at most.") % {"most": MAX_LOCATIONS})
        return [location_named(line) for line in lines] or None


@requires(Right.VIEW)
@require_GET
def show_tokens(request: HttpRequest) -> HttpResponse:
    """List the user's tokens, or for an admin of all locations everybody's, and show the form."""
    return _tokens_page(request, TokenForm(None, request.user))


@requires(Right.VIEW)
@require_POST
def new_token(request: HttpRequest) -> HttpResponse:
    """Make a token, and show it once: only a hash of it is stored, so nothing redirects to it."""
    form = TokenForm(request.POST, request.user)
    if not form.is_valid():
        return _tokens_page(request, form, status=422)
    given = form.cleaned_data
    level, user = Level(given["level"]), account_of(request)
    try:
        token, text = make_token(user, given["name"], level, given["locations"], days=given["days"])
    except TokenRefused:
        form.add_error("locations", _("You do not have this role at all of these locations."))
        return _tokens_page(request, form, status=422)
    return render(request, "tokens/made.html", {"token": token, "text": text})


@requires(Right.VIEW)
@require_POST
def revoke_one_token(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke a token."""
    token = get_object_or_404(_tokens(request), pk=pk)
    if revoke_token(token):
        messages.success(request, _("%(name)s no longer works.") % {"name": token.name})
    return redirect("tokens")


def _tokens_page(request: HttpRequest, form: TokenForm, status: int = 200) -> HttpResponse:
    tokens = _tokens(request).select_related("user").prefetch_related("locations")
    context = {"tokens": tokens[:MAX_TOKENS], "form": form}
    return render(request, "tokens/page.html", context, status=status)


def _tokens(request: HttpRequest) -> QuerySet[ApiToken]:
    """The tokens that the user may revoke."""
    if may_everywhere(request.user, Right.MEMBERS):
        return ApiToken.objects.all()
    return ApiToken.objects.filter(user=request.user.pk or 0)
