"""Measures the web server's memory and open files while pages are read and sockets stay open."""

import asyncio
import http.client
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from websockets.asyncio.client import connect
from websockets.typing import Origin

from quality.benchmarks.many_pages import cookie_of, megabytes, web_server
from quality.served import Served, served
from quality.tables import print_heading, print_row

CHECKPOINTS = 1000
WARM_UP_REQUESTS = 160
REQUESTS = 320
CLIENTS = 20
REQUESTS_OF_A_CLIENT = 16


def main() -> None:
    with served() as dashboard:
        print_heading("", "memory", "database descriptors", "threads")
        measure(dashboard)


def measure(dashboard: Served) -> None:
    """Print the web server's memory and open files after each step."""
    site, cookie, addresses = dashboard.site, cookie_of(dashboard.link), addresses_of_pages()
    server = web_server()
    report("after its start", server)
    request_times(site, cookie, addresses, WARM_UP_REQUESTS)
    report(f"after {WARM_UP_REQUESTS} requests", server)
    for again in ("", ", again"):
        request_times(site, cookie, addresses, REQUESTS)
        report(f"after {REQUESTS} more{again}", server)
    for again in ("", ", again"):
        asyncio.run(read_at_once(site, cookie, addresses))
        report(f"after {CLIENTS} clients{again}", server)


def addresses_of_pages() -> list[str]:
    """Return the URLs of a generated run, its location and its checkpoints."""
    from tests.lineage.generated_runs import generated_run

    run = generated_run(CHECKPOINTS)
    checkpoints = run.checkpoints.order_by("row")[:20]
    pages = ["/", "/jobs/", run.location.get_absolute_url(), run.get_absolute_url()]
    return pages + [f"{run.get_absolute_url()}?checkpoint={row.pk}" for row in checkpoints]


def request_times(
    site: str, cookie: str, addresses: Sequence[str], count: int, every: float = 0.0
) -> list[float]:
    """Request pages on one connection, one in ``every`` seconds at most. Return the seconds of each."""
    taken = []
    connection = http.client.HTTPConnection(urlsplit(site).netloc, timeout=300)
    # Not all people click at the same time.
    time.sleep(random.uniform(0, every))
    for number in range(count):
        began = time.monotonic()
        connection.request("GET", addresses[number % len(addresses)], headers={"Cookie": cookie})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, (answer.status, addresses[number % len(addresses)])
        taken.append(time.monotonic() - began)
        if every:
            # The server closes idle connections.
            connection.close()
            time.sleep(max(0.0, every - taken[-1]))
    connection.close()
    return taken


async def read_at_once(site: str, cookie: str, addresses: Sequence[str]) -> None:
    """Request pages from several clients at the same time, each with an open socket."""
    location = next(address for address in addresses if address.startswith("/locations/"))
    socket = f"{site.replace('http', 'ws')}/ws{location}"
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as open_sockets:
        for _ in range(CLIENTS):
            client = connect(socket, origin=Origin(site), additional_headers={"Cookie": cookie})
            await open_sockets.enter_async_context(client)
        with ThreadPoolExecutor(CLIENTS) as clients:
            reading = [
                loop.run_in_executor(clients, request_times, site, cookie, addresses, REQUESTS_OF_A_CLIENT)
                for _ in range(CLIENTS)
            ]
            await asyncio.gather(*reading)


def report(what: str, server: psutil.Process) -> None:
    databases = len([file for file in Path(f"/proc/{server.pid}/fd").iterdir() if is_database(file)])
    print_row(what, f"{megabytes(server)} MB", databases, server.num_threads())


def is_database(file: Path) -> bool:
    try:
        return "sqlite3" in str(file.readlink())
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    main()
