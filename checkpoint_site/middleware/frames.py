"""Gives the Python frames of a page one piece of memory.

Python allocates frames in pieces of 16 KB, and releases a piece when its first frame returns. Where calls
cross the end of a piece, each allocates and releases another one: the home page did so 6,000 times, which
took half of its processor time. A larger frame gets a larger piece, with room for the frames of its calls.
"""

from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

GetResponse = Callable[[HttpRequest], HttpResponseBase]

# In words. Python doubles the 16 KB until the frame fits: 512 KB, half of which remains for other frames.
# Memory that no frame uses stays virtual.
FRAME_WORDS = 32 * 1024


def share_memory(get_response: GetResponse) -> GetResponse:
    """Middleware: have all frames of a response in one piece of memory."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        return get_response(request)

    middleware.__code__ = middleware.__code__.replace(co_stacksize=FRAME_WORDS)
    return middleware
