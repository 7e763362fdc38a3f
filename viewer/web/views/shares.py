"""Making, listing and revoking share links, for those who can run."""

from typing import Any

from csp.decorators import csp_replace, csp_update
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from viewer.models import Right, ShareLink
from viewer.presentation.share_links import EXPIRY_DAYS, link_state, make_link, revoke_link, shared_by
from viewer.presentation.shared_objects import Shared, find_shared, subject_at, subject_in
from viewer.records.permissions import requires
from viewer.web.views.shared import origin_of, shared_page, shared_picture, shared_rows

# The newest links that the list shows.
MAX_LINKS = 500


def _choices() -> list[tuple[str, str]]:
    return [
        (str(days), ngettext("%(count)s day", "%(count)s days", days) % {"count": days})
        for days in EXPIRY_DAYS
    ]


class ShareForm(forms.Form):
    """How long a link works, and whether it unfurls in a chat."""

    days = forms.ChoiceField(
        label=gettext_lazy("Expires after"), choices=_choices, initial=str(EXPIRY_DAYS[0])
    )
    unfurls = forms.BooleanField(
        label=gettext_lazy("Show a preview where the link is pasted"), required=False
    )

    @property
    def days_chosen(self) -> int:
        """How many days the link works."""
        return int(self.cleaned_data["days"])


@requires(Right.SHARE)
@csp_update({"frame-src": ["'self'"]})
@require_http_methods(["GET", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Show what a link to ``?kind=&target=`` would show, and make it.

    The link is shown once: only a hash of its token is stored, so nothing redirects to it.
    """
    shared = _shared(subject_in(request.GET.get("kind", ""), request.GET.get("target", "")))
    form = ShareForm(request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {"shared": shared, "form": form, "back": _address_of(shared)}
    context["preview"] = reverse("share-preview", args=[shared.subject.path])
    if not form.is_bound or not form.is_valid():
        return render(request, "shares/new.html", context, status=422 if form.is_bound else 200)
    assert isinstance(request.user, User)
    link, token = make_link(shared, request.user, days=form.days_chosen, unfurls=form.cleaned_data["unfurls"])
    address = origin_of(request) + reverse("shared", args=[token])
    context |= {"link": link, "address": address}
    if settings.EMBED_ORIGINS and link.kind == ShareLink.Kind.RUN:
        frame = '<iframe src="{}embed/" title="{}" width="100%" height="480" loading="lazy"></iframe>'
        context |= {"frame": format_html(frame, address, shared.title), "origins": settings.EMBED_ORIGINS}
    return render(request, "shares/made.html", context)


@requires(Right.SHARE)
@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """List all links, the newest first."""
    links = [
        {"link": link, "address": _own_address(link), "state": link_state(link)}
        for link in ShareLink.objects.select_related("made_by")[:MAX_LINKS]
    ]
    return render(request, "shares/list.html", {"links": links})


@requires(Right.SHARE)
@require_POST
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke a link. Its open pages end at once."""
    link = get_object_or_404(ShareLink, pk=pk)
    revoke_link(link)
    messages.success(request, _("Revoked the link to %(title)s.") % {"title": link.title})
    return redirect("shares")


@requires(Right.SHARE)
@xframe_options_sameorigin
@csp_replace({"frame-ancestors": ["'self'"]})  # type: ignore[arg-type]
@require_GET
def preview(request: HttpRequest, what: str) -> HttpResponse:
    """Show exactly the page that a link to this object shows."""
    return shared_page(request, _shared(subject_at(what)), {})


@requires(Right.SHARE)
@require_GET
def preview_rows(request: HttpRequest, what: str) -> HttpResponse:
    """Return rows of the run in the preview."""
    response = shared_rows(request, _shared(subject_at(what)))
    if response is None:
        raise Http404
    return response


@requires(Right.SHARE)
@require_GET
def preview_picture(request: HttpRequest, what: str) -> HttpResponse:
    """Return the picture that a chat shows."""
    response = shared_picture(_shared(subject_at(what)))
    if response is None:
        raise Http404
    return response


def _shared(subject: Any) -> Shared:
    """Return an object that can be shared. Raises Http404, and PermissionDenied if sharing is off."""
    if not settings.SHARING:
        raise PermissionDenied
    shared = find_shared(subject) if subject else None
    if shared is None:
        raise Http404
    return shared


def _own_address(link: ShareLink) -> str:
    """Return where somebody with a login sees the object; empty if it is gone."""
    shared = shared_by(link)
    return _address_of(shared) if shared else ""


def _address_of(shared: Shared) -> str:
    if shared.checkpoint:
        return shared.checkpoint.get_absolute_url()
    for row in (shared.run, shared.job):
        if row:
            return row.get_absolute_url()
    return f"{reverse('compare' if shared.sides else 'search')}?{shared.subject.target}"
