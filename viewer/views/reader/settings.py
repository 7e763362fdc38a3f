"""The settings of the logged-in user."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import TextChoices
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import get_language_from_request, override
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from viewer.access.permissions import viewer_allowed
from viewer.models import ReaderSettings


@viewer_allowed
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """Show who is logged in, and what they have chosen."""
    choices = {"themes": ReaderSettings.Theme, "time_zones": ReaderSettings.TimeZone}
    choices |= {"clocks": ReaderSettings.Clock, "densities": ReaderSettings.Density}
    context: dict[str, Any] = {name: values.choices for name, values in choices.items()}
    context["languages"] = settings.LANGUAGES
    return render(request, "reader_settings/page.html", context)


@viewer_allowed
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
