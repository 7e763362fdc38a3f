"""Redirects from addresses of earlier versions."""

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from viewer.access.permissions import viewer_allowed


@viewer_allowed
@require_http_methods(["GET", "HEAD", "POST"])
def moved(request: HttpRequest, name: str, **kwargs: Any) -> HttpResponse:
    """Redirect to the URL with this name, with the same query string.

    A form that was open during the update is sent again with its data (308). Permissions are checked there.
    """
    query = request.META.get("QUERY_STRING", "")
    address = reverse(name, kwargs=kwargs) + (f"?{query}" if query else "")
    return HttpResponsePermanentRedirect(address, preserve_request=request.method == "POST")
