"""The frames of a page share one piece of memory, however deep the calls are."""

import resource
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from checkpoint_site.middleware.responses import share_memory

DEPTHS, CALLS = 300, 100


def test_calls_at_no_depth_allocate_memory_each_time() -> None:
    """Without the middleware, Python allocates and releases a piece for each call at some of these depths."""

    def response(_request: HttpRequest) -> HttpResponse:
        for depth in range(DEPTHS):
            _at_depth(depth, _calls)
        return HttpResponse()

    page = share_memory(response)
    page(HttpRequest())
    before = _page_faults()
    page(HttpRequest())
    assert _page_faults() - before < CALLS


def _at_depth(depth: int, work: Callable[[], object]) -> None:
    if depth:
        _at_depth(depth - 1, work)
    else:
        work()


def _calls() -> None:
    for _ in range(CALLS):
        _at_depth(2, int)


def _page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
