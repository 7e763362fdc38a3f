"""Measures the web server and PostgreSQL while fifty people with open sockets click through pages."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from statistics import median, quantiles

import psutil
from websockets.asyncio.client import connect
from websockets.typing import Origin

from quality.benchmarks.many_pages import cookie_of, processes
from quality.benchmarks.serving import addresses_of_pages, request_times
from quality.benchmarks.several_machines import postgresql_processes, sampled_memory
from quality.benchmarks.timing import processor_seconds
from quality.cluster.database import used_server
from quality.served import served
from quality.tables import print_heading, print_row

PEOPLE, SECONDS, SECONDS_A_PAGE = 50, 60, 10
GOAL_CORES, GOAL_MEGABYTES = 2, 2000


def main() -> None:
    with used_server() as server, served() as dashboard:
        addresses, cookie = addresses_of_pages(), cookie_of(dashboard.link)
        parts: dict[str, Callable[[], list[psutil.Process]]] = {
            "web server": lambda: processes("checkpoint_site.server"),
            "PostgreSQL": lambda: postgresql_processes(server),
        }
        asyncio.run(click(dashboard.site, cookie, addresses, 1))
        before = {name: cpu_of(found()) for name, found in parts.items()}
        with sampled_memory(server) as memory:
            began = time.monotonic()
            taken = asyncio.run(click(dashboard.site, cookie, addresses, SECONDS // SECONDS_A_PAGE))
            passed = time.monotonic() - began
        used = {name: cpu_of(found()) for name, found in parts.items()}
    print_heading("", "cores", "memory")
    shares = {name: grown(before[name], used[name]) / passed for name in parts}
    for name, share in shares.items():
        print_row(name, f"{share:.2f}", f"{memory[name] / 1e6:.0f} MB")
    total = sum(memory[name] for name in parts) / 1e6
    print_row("together", f"{sum(shares.values()):.2f}", f"{total:.0f} MB")
    print_row("goal", GOAL_CORES, f"{GOAL_MEGABYTES} MB")
    print_heading("pages", "median", "p95")
    print_row(len(taken), f"{median(taken) * 1000:.0f} ms", f"{quantiles(taken, n=20)[-1] * 1000:.0f} ms")


def cpu_of(found: Sequence[psutil.Process]) -> dict[int, float]:
    """Return the processor seconds of each process, by its id. A connection may have ended."""
    seconds = {}
    for process in found:
        try:
            seconds[process.pid] = processor_seconds([process])
        except psutil.Error:
            continue
    return seconds


def grown(before: dict[int, float], after: dict[int, float]) -> float:
    """Return the seconds that processes which still run have used in between."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())


async def click(site: str, cookie: str, addresses: Sequence[str], pages: int) -> list[float]:
    """Have each person open a page every few seconds. Return how long each page took."""
    location = next(address for address in addresses if address.startswith("/locations/"))
    socket, loop = f"{site.replace('http', 'ws')}/ws{location}", asyncio.get_running_loop()
    async with AsyncExitStack() as open_sockets:
        for _ in range(PEOPLE):
            client = connect(socket, origin=Origin(site), additional_headers={"Cookie": cookie})
            await open_sockets.enter_async_context(client)
        with ThreadPoolExecutor(PEOPLE) as people:
            rotated = [[*addresses[first:], *addresses[:first]] for first in range(PEOPLE)]
            clicks = [
                loop.run_in_executor(people, request_times, site, cookie, one, pages, SECONDS_A_PAGE)
                for one in rotated
            ]
            return [seconds for person in await asyncio.gather(*clicks) for seconds in person]


if __name__ == "__main__":
    main()
