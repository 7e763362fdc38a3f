"""Login with a one-time link, and the settings of the logged-in user."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.db.models import TextChoices
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import get_language_from_request, override
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST
from sesame.utils import get_user
from sesame.views import LoginView

from viewer.data_folder.locks import exclusive_transaction
from viewer.models import ReaderSettings, Right
from viewer.records.permissions import is_shared, may, may_everywhere, requires

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
def save(request: HttpRequest) -> HttpResponse:
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
