"""Opens many sockets of each job, and notes when each event came: watchers.py COUNT ADDRESSES ORIGIN COOKIE.

Says ``open`` once all of them are. At the end: how many were cut off, and went on with another socket as a
page does, and a list for each of [event's seq, seconds since 1970].
Its library is the one that Daphne speaks with: here on asyncio, so in a process of its own.
"""

import asyncio
import json
import re
import sys
import time

from autobahn.asyncio.websocket import WebSocketClientFactory, WebSocketClientProtocol

EVENT = re.compile(r'data-event="(\d+)"')
MOST_SECONDS = 300
# All has been told.
NORMAL_CLOSURE = 1000


class Watcher(WebSocketClientProtocol):
    """One page's socket. Autobahn calls these by their names."""

    def __init__(self) -> None:
        super().__init__()
        loop = asyncio.get_running_loop()
        self.seen: list[tuple[int, float]] = []
        self.opened, self.closed = loop.create_future(), loop.create_future()

    def onOpen(self) -> None:
        self.opened.set_result(None)

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        now = time.time()
        self.seen += [(int(seq), now) for seq in EVENT.findall(payload.decode())]

    def onClose(self, wasClean: bool, code: int, reason: str) -> None:
        self.closed.set_result(code)


async def main(count: int, addresses: str, origin: str, cookie: str) -> None:
    pages = [address for address in addresses.split(",") for _ in range(count)]
    opening = [await opened(address, 0, origin, cookie) for address in pages]
    await asyncio.gather(*(watcher.opened for watcher in opening))
    print("open", flush=True)
    cut_off = 0

    async def told(address: str, watcher: Watcher) -> list[tuple[int, float]]:
        nonlocal cut_off
        seen = watcher.seen
        while await watcher.closed != NORMAL_CLOSURE:
            cut_off += 1
            watcher = await opened(address, max((seq for seq, _ in seen), default=0), origin, cookie)
            # Both fill the same list.
            seen += watcher.seen
            watcher.seen = seen
        return seen

    async with asyncio.timeout(MOST_SECONDS):
        all_told = await asyncio.gather(*map(told, pages, opening))
    print(json.dumps([cut_off, all_told]), flush=True)


async def opened(address: str, after: int, origin: str, cookie: str) -> Watcher:
    """A socket of this address that is about to open, and is told what follows this event."""
    factory = WebSocketClientFactory(f"{address}&after={after}", origin=origin, headers={"Cookie": cookie})
    factory.protocol = Watcher
    factory.setProtocolOptions(openHandshakeTimeout=MOST_SECONDS)
    loop = asyncio.get_running_loop()
    watcher: Watcher
    _transport, watcher = await loop.create_connection(factory, factory.host, factory.port)
    return watcher


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:5]))
