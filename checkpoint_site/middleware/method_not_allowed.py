"""Shows a page with a way back when someone opens the URL of a form."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

View = Callable[[HttpRequest], HttpResponse]


def method_not_allowed(get_response: View) -> View:
    """Middleware: render a page for a GET request that was answered with 405."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if response.status_code == 405 and request.method == "GET":
            page = render(request, "405.html", status=405)
            page["Allow"] = response["Allow"]
            return page
        return response

    return middleware
