"""The settings of the logged-in user."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from viewer.access.permissions import viewer_allowed
from viewer.models import ReaderSettings


@viewer_allowed
@require_GET
def show(request: HttpRequest) -> HttpResponse:
    """Show who is logged in, and what they have chosen."""
    return render(request, "reader_settings/page.html", {"themes": ReaderSettings.Theme.choices})


@viewer_allowed
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Store what the user has chosen. Unknown values are left out."""
    theme = request.POST.get("theme", "")
    known = theme if theme in ReaderSettings.Theme.values else ReaderSettings.Theme.SYSTEM
    values = {"theme": known, "notifies": "notifies" in request.POST}
    ReaderSettings.objects.update_or_create(user=get_object_or_404(User, pk=request.user.pk), defaults=values)
    messages.success(request, _("Saved."))
    return redirect("settings")
