"""Opens many sockets of each job, and records when events arrive: watchers.py COUNT ADDRESSES ORIGIN COOKIE.

Prints ``open`` once all of them are. At the end: the number of reconnects, for each page a list of
[event's seq, seconds since 1970], and the processor time in seconds since all were open.
"""

import asyncio
import json
import re
import sys
import time
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

EVENT = re.compile(r'"event":(\d+)')
MAX_SECONDS = 300
# The job has ended and every event was sent.
NORMAL_CLOSURE = 1000
# The server refuses the page: it would refuse it again.
REFUSED = range(4000, 5000)


async def main(count: int, addresses: str, origin: str, cookie: str) -> None:
    pages = [address for address in addresses.split(",") for _ in range(count)]
    opening = [await opened(address, 0, origin, cookie) for address in pages]
    print("open", flush=True)
    started_at = time.process_time()
    cut_off = 0

    async def received(address: str, socket: ClientConnection) -> list[tuple[int, float]]:
        nonlocal cut_off
        seen: list[tuple[int, float]] = []
        while (code := await read(socket, seen)) != NORMAL_CLOSURE:
            assert code not in REFUSED, f"the server closed the page with {code}"
            cut_off += 1
            socket = await opened(address, max((seq for seq, _ in seen), default=0), origin, cookie)
        return seen

    async with asyncio.timeout(MAX_SECONDS):
        all_received = await asyncio.gather(*map(received, pages, opening))
    print(json.dumps([cut_off, all_received, time.process_time() - started_at]), flush=True)


async def read(socket: ClientConnection, seen: list[tuple[int, float]]) -> int | None:
    """Record each event until the socket is closed. Return the code that closed it."""
    try:
        while True:
            message = str(await socket.recv())
            now = time.time()
            seen += [(int(seq), now) for seq in EVENT.findall(message)]
    except ConnectionClosed:
        return socket.close_code


async def opened(address: str, after: int, origin: str, cookie: str) -> ClientConnection:
    """Open a socket of this address, as a proxy of the origin does. It receives the events after this one."""
    server = urlsplit(address)
    return await connect(
        f"{server._replace(netloc=urlsplit(origin).netloc).geturl()}&after={after}",
        host=server.hostname,
        port=server.port,
        origin=Origin(origin),
        additional_headers={"Cookie": cookie},
        compression=None,
        max_size=None,
        open_timeout=MAX_SECONDS,
    )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:5]))
