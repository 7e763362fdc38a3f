"""What is answered to who opens an address that only a form is sent to: a page that leads on."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def explained(answer: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: a page instead of the empty one that refuses a way of asking."""

    def answered(request: HttpRequest) -> HttpResponse:
        response = answer(request)
        if response.status_code == 405 and request.method == "GET":
            page = render(request, "405.html", status=405)
            page["Allow"] = response["Allow"]
            return page
        return response

    return answered
