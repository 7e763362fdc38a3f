"""The origin of a request, on which depends what a page starts without a click."""

from django.http import HttpRequest


def is_from_our_page(request: HttpRequest) -> bool:
    """Whether a page of this server led here. False for links of other sites and for typed addresses.

    Browsers say so in Sec-Fetch-Site, which no page can set. Over plain HTTP they leave it out; there the
    referrer of one of our own pages counts, which other sites cannot send either.
    """
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    # Not parsed, as any client may send malformed ones.
    return request.headers.get("Referer", "").startswith(f"{request.scheme}://{request.get_host()}/")
