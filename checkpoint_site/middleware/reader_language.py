"""Shows pages in the language that a user has chosen, instead of the browser's."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import activate

from viewer.models.reader_settings import chosen_language

View = Callable[..., HttpResponseBase]


class ReaderLanguage:
    """Middleware: after LocaleMiddleware has activated the browser's language, activate the user's."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: View, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        """Activate the language. Views that respond without a data folder have no user."""
        if getattr(view, "without_data", False):
            return
        if language := chosen_language(request.user):
            activate(language)
            request.LANGUAGE_CODE = language
