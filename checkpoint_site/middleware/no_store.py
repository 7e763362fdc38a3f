"""Keeps browsers and proxies from storing pages."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

View = Callable[[HttpRequest], HttpResponse]


def no_store(get_response: View) -> View:
    """Middleware: ``Cache-Control: no-store`` on pages, partials and downloads, but not on static files."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Cache-Control"] = "no-store"
        return response

    return middleware
