"""The origin of share links."""

from django.conf import settings
from django.http import HttpRequest


def origin_of(request: HttpRequest) -> str:
    """Return the scheme and host of an allowed origin, as the browser sees it."""
    scheme = "https" if settings.IS_BEHIND_TLS else request.scheme
    return f"{scheme}://{request.get_host()}"
