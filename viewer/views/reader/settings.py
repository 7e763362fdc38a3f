"""The settings of the logged-in user."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
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
    context = {"themes": ReaderSettings.Theme.choices, "languages": settings.LANGUAGES}
    return render(request, "reader_settings/page.html", context)


@viewer_allowed
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Store what the user has chosen. Unknown values are left out."""
    theme = request.POST.get("theme", "")
    known = theme if theme in ReaderSettings.Theme.values else ReaderSettings.Theme.SYSTEM
    language = request.POST.get("language", "")
    values: dict[str, Any] = {
        "theme": known,
        "language": language if language in dict(settings.LANGUAGES) else "",
        "notifies": "notifies" in request.POST,
    }
    ReaderSettings.objects.update_or_create(user=get_object_or_404(User, pk=request.user.pk), defaults=values)
    with override(values["language"] or get_language_from_request(request)):
        messages.success(request, _("Saved."))
    return redirect("settings")
