"""Times of calls and requests, with reader processes that have started."""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import psutil

if TYPE_CHECKING:
    from django.test import Client


# The time in which a person types a path.
SECONDS_TO_TYPE = 4


class Seconds(NamedTuple):
    """Processor time of all involved processes, wall time, and the processor time of this process alone."""

    used: float
    passed: float
    own: float = 0.0


def timed(work: Callable[[], object], without: int = 0) -> Seconds:
    """Return the time that a call takes, children included. The child with the id ``without`` is not."""
    children = _seconds_of_children(without)
    own, began = time.process_time(), time.perf_counter()
    work()
    passed, worked = time.perf_counter() - began, time.process_time() - own
    return Seconds(worked + _seconds_of_children(without) - children, passed, worked)


def timed_requests(client: "Client", address: str, count: int) -> list[Seconds]:
    """Return the times of requests for the same page, which must respond with 200."""

    def request() -> None:
        assert client.get(address).status_code == 200, address

    return [timed(request) for _ in range(count)]


def start_readers(client: "Client") -> None:
    """Have the reader processes started by the page with the form that adds a location, and wait for them."""
    assert client.get("/locations/").status_code == 200
    time.sleep(SECONDS_TO_TYPE)


def processor_seconds(processes: Iterable[psutil.Process]) -> float:
    """Return the processor time in seconds of these processes, without their children."""
    return float(sum(sum(process.cpu_times()[:2]) for process in processes))


def _seconds_of_children(without: int) -> float:
    return processor_seconds(child for child in psutil.Process().children() if child.pid != without)
