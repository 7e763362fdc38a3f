"""Nothing that is made for a reader is stored by a browser or a proxy."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse


def never_stored(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: ``Cache-Control: no-store`` on pages, parts and downloads, not on static files."""

    def answered(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        response["Cache-Control"] = "no-store"
        return response

    return answered
