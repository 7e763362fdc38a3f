"""Where a request comes from, as the browser says: what a page starts by itself depends on it."""

from urllib.parse import urlsplit

from django.http import HttpRequest


def is_from_our_page(request: HttpRequest) -> bool:
    """Whether a page of ours led here. False for other sites' links, and for addresses that were typed.

    Browsers say so in Sec-Fetch-Site, which no page can set. Over plain HTTP they leave it out; there the
    referrer of one of our own pages counts, which other sites cannot send either.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    referrer = urlsplit(request.headers.get("Referer", ""))
    return (referrer.scheme, referrer.netloc) == (request.scheme, request.get_host())
