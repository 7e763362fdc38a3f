"""Which requests to a share link are views of a person."""

import re

from django.http import HttpRequest

# Programs that fetch a link where it is pasted, and crawlers. A browser has none of these in its name.
PROGRAM = re.compile(
    r"bot\b|bot/|crawl|spider|preview|facebookexternalhit|facebot|whatsapp|slack|telegram|discord|skype|teams"
    r"|linkedin|embedly|iframely|mattermost|zulip|curl/|wget|python|go-http|okhttp|headless(?!chrome)|^$",
    re.IGNORECASE,
)


def is_program(request: HttpRequest) -> bool:
    """Whether a program sent the request, such as a chat that shows a preview of the link."""
    return bool(PROGRAM.search(request.headers.get("User-Agent", "")))


def is_view(request: HttpRequest) -> bool:
    """Whether a person opened the page: not a part of it, not in advance, and not only its headers."""
    is_ahead = "prefetch" in request.headers.get("Sec-Purpose", request.headers.get("Purpose", ""))
    is_page = request.headers.get("Sec-Fetch-Dest", "document") == "document"
    return request.method == "GET" and is_page and not is_ahead and "HX-Request" not in request.headers
