"""The HTTP interface for programs: who a token acts for, and errors as JSON documents."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.translation import activate

from checkpoint_site.middleware.throttle import address_key, throttle
from viewer.models.roles import access_of, unrestricted
from viewer.records.tokens import record_use, token_for

GetResponse = Callable[[HttpRequest], HttpResponseBase]
API = "/api/"


class TokenUser:
    """Middleware: the user of a request to the HTTP interface is its token's, never that of a session.

    A token is checked before a failure is counted: it cannot be guessed, so one that works is never refused.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., Any],
        arguments: tuple[Any, ...],
        named: dict[str, Any],
    ) -> HttpResponseBase | None:
        """Return None if the view may respond, else why not."""
        if not getattr(view, "by_token", False):
            return None
        scheme, _blank, text = request.headers.get("Authorization", "").partition(" ")
        token = token_for(text.strip()) if scheme.lower() == "bearer" else None
        with unrestricted():
            user = token.limited_user if token else AnonymousUser()
        # A person without a role has nothing that a token could be for.
        if token and access_of(user).highest:
            record_use(token)
            request.user, request.token = user, token.pk  # type: ignore[attr-defined]
            return None
        request.user = AnonymousUser()
        if wait := throttle.use_attempt([address_key("token", request)]):
            refused = error_response(HTTPStatus.TOO_MANY_REQUESTS)
            refused["Retry-After"] = str(wait)
            return refused
        return error_response(HTTPStatus.UNAUTHORIZED)


def json_errors(get_response: GetResponse) -> GetResponse:
    """Middleware: in the HTTP interface, every error is a JSON document, in English."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(API):
            return get_response(request)
        activate("en")
        response = get_response(request)
        is_json = response.get("Content-Type", "").startswith("application/json")
        if response.status_code < 400 or is_json:
            return response
        error = error_response(HTTPStatus(response.status_code))
        for name in ("Retry-After", "Allow"):
            if name in response:
                error[name] = response[name]
        return error

    return middleware


# What an error says, unless its view says more.
TEXTS = {
    HTTPStatus.UNAUTHORIZED: "Send a token that works: Authorization: Bearer fkl_…",
    HTTPStatus.FORBIDDEN: "This token does not have the role for that.",
    HTTPStatus.NOT_FOUND: "There is no such object, or this token does not see it.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests with a token that does not work.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The data folder is not available. Try again later.",
}


def error_response(status: HTTPStatus) -> JsonResponse:
    """Return an error as a JSON document."""
    response = JsonResponse({"error": TEXTS.get(status, status.phrase)}, status=status)
    if status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = "Bearer"
    return response
