"""Forwards connections of a run in bubblewrap to the hosts that its project allows, and to nothing else.

The run has a separate network. Its ``/etc/hosts`` gives each allowed name a loopback address, where a socket
listens on the allowed port. The sockets are made from outside, before the run starts, so the sandbox has
neither a process nor a descriptor of Forkline. A thread of the supervisor accepts connections, connects to
the host that belongs to the socket, and copies bytes both ways. Nothing that a run sends decides where it
leads, and TLS stays end to end.

Imports neither Django nor the rest of Forkline, because the supervisor starts for each run.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import re
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Thread

from viewer.host import kernel

# A host and a port. The host is a name or an address, as ``viewer.records.isolation`` has checked it.
Destination = tuple[str, int]
# Where the run reaches it: a loopback address in its network, and the same port.
Endpoint = tuple[str, int]

LOOPBACK = "127.0.0.1"
# Names get the addresses from here on. Few programs use them.
FIRST_ADDRESS = ipaddress.IPv4Address("127.64.0.1")
PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
# Names come from /etc/hosts only, so a name that is not allowed fails at once.
NAME_SERVICES = b"passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"


# The network of the run.


def endpoints(hosts: Sequence[Destination]) -> dict[Endpoint, Destination]:
    """Where the run reaches each destination. Ports of one host share an address.

    ``localhost`` and addresses are reached where they are outside.
    """
    addresses = _addresses(hosts)
    found: dict[Endpoint, Destination] = {}
    for host, port in hosts:
        found.setdefault((addresses.get(host, host), port), (host, port))
    return found


def _addresses(hosts: Sequence[Destination]) -> dict[str, str]:
    """The address of each name in the sandbox, in order."""
    used = {host for host, _port in hosts}
    free = (str(FIRST_ADDRESS + number) for number in range(2 * len(hosts) + 1))
    unused = (address for address in free if address not in used)
    names = dict.fromkeys(host for host, _port in hosts if not is_address(host))
    return {name: LOOPBACK if name == "localhost" else next(unused) for name in names}


def is_address(host: str) -> bool:
    """Whether a host is an IP address."""
    with suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return False


def files(hosts: Sequence[Destination]) -> dict[str, bytes]:
    """The files of the sandbox that lead names to their addresses, by their paths. Raises ValueError."""
    addresses = {"localhost": LOOPBACK} | _addresses(hosts)
    own = os.uname().nodename
    if PLAIN_NAME.fullmatch(own) and own.lower() not in addresses:
        # Programs look up the name of their machine. The first line of a name counts, in either case.
        addresses = {own: LOOPBACK} | addresses
    if strange := [name for name in addresses if not PLAIN_NAME.fullmatch(name)]:
        raise ValueError(f"{strange[0]!r} is not the name of a host")
    lines = [f"{address} {name}\n" for name, address in addresses.items()]
    return {"/etc/hosts": "".join(lines).encode(), "/etc/nsswitch.conf": NAME_SERVICES}


# Of the kernel's interface to network devices.
SIOCGIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x8913, 0x8916, 0x891C
DEVICE = b"lo"
DEVICE_NUMBER = 1
IS_UP = 1
BACKLOG = 128


def listen_within(process: int, found: Sequence[Endpoint], end: float) -> list[socket.socket]:
    """Sockets that listen at these endpoints in the network of a process, in their order.

    A child makes them, because a process cannot leave a user namespace again. Its rights are those of that
    namespace: it may use any port, and give the loopback device addresses. Raises OSError.
    """
    ours, childs = socket.socketpair()
    with ours, childs:
        child = os.fork()
        if child == 0:
            try:
                kernel.enter_network(process)
                made = list(_listening(found, end))
                socket.send_fds(childs, [b"made"], [one.fileno() for one in made])
            except BaseException as error:
                childs.send(f"{type(error).__name__}: {error}".encode()[:1000])
            finally:
                os._exit(0)
        childs.close()
        text, descriptors, _flags, _address = socket.recv_fds(ours, 1000, len(found))
        os.waitpid(child, 0)
    sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    if text != b"made" or len(sockets) != len(found):
        raise OSError(f"no socket could listen in the sandbox: {text.decode(errors='replace')}")
    return sockets


def _listening(found: Sequence[Endpoint], end: float) -> Iterator[socket.socket]:
    """Listen at each endpoint in the network of this process. Raises OSError."""
    with socket.socket() as plain:
        while not _flags(plain) & IS_UP:
            _pause(end)
    others = dict.fromkeys(address for address, _port in found if not _is_loopback(address))
    for number, address in enumerate(others):
        _add(address, number)
    for address, port in found:
        listener = socket.socket(_family(address))
        while True:
            try:
                listener.bind((address, port))
                break
            except OSError as error:
                # An address of IPv6 can be used a moment after it was added.
                if error.errno != errno.EADDRNOTAVAIL:
                    raise OSError(error.errno, f"{address} port {port}: {error.strerror}") from None
                _pause(end)
        listener.listen(BACKLOG)
        yield listener


def _pause(end: float) -> None:
    if time.monotonic() > end:
        raise TimeoutError("its network was not ready in time")
    time.sleep(0.001)


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _flags(opened: socket.socket) -> int:
    """The flags of the loopback device."""
    request = struct.pack("16sH22x", DEVICE, 0)
    flags: int = struct.unpack_from("H", kernel.control(opened, SIOCGIFFLAGS, request), 16)[0]
    return flags


def _add(address: str, number: int) -> None:
    """Give the loopback device of this network a further address. Raises OSError."""
    with socket.socket(_family(address), socket.SOCK_DGRAM) as opened:
        packed = socket.inet_pton(_family(address), address)
        if ":" in address:
            kernel.control(opened, SIOCSIFADDR, packed + struct.pack("Ii", 128, DEVICE_NUMBER))
            return
        for request, value in ((SIOCSIFADDR, packed), (SIOCSIFNETMASK, b"\xff" * 4)):
            label = DEVICE + f":{number}".encode()
            kernel.control(opened, request, struct.pack("16sHH4s16x", label, socket.AF_INET, 0, value))


# The forwarder.

# Of one run. Each occupies two descriptors of the supervisor, and two chunks of memory at most.
MAX_CONNECTIONS = 256
CHUNK = 64 * 1024
# Of each address of a host, and of all of them with the lookup of its name.
ADDRESS_SECONDS, CONNECT_SECONDS = 8.0, 30.0
# A database's connection waits while a person answers a question.
IDLE_SECONDS = 24 * 3600.0
# Seconds without bytes after which the kernel asks whether a host is there, and between two questions.
KEEPALIVE_SECONDS, KEEPALIVE_COUNT = 60, 5
LOOKUPS = 32
PAUSE_SECONDS = 0.1


def forward(listeners: Mapping[socket.socket, Destination], log: int) -> None:
    """Forward connections in a thread, until this process exits. What fails is noted in the log, once."""
    forwarder = Forwarder(listeners, log)
    Thread(target=lambda: asyncio.run(forwarder.run()), daemon=True).start()


class Forwarder:
    """Accepts connections of the run, and copies their bytes to where each listening socket leads."""

    def __init__(self, listeners: Mapping[socket.socket, Destination], log: int) -> None:
        self.listeners, self.log = listeners, log
        self.connections: set[asyncio.Task[None]] = set()
        self.noted: set[str] = set()

    async def run(self) -> None:
        """Accept connections until this is cancelled."""
        loop = asyncio.get_running_loop()
        # A name server that does not answer must not hold up the lookups of other names.
        loop.set_default_executor(ThreadPoolExecutor(LOOKUPS))
        await asyncio.gather(*(self._accept(listener, to) for listener, to in self.listeners.items()))

    async def _accept(self, listener: socket.socket, destination: Destination) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            try:
                client, _address = await loop.sock_accept(listener)
            except OSError:
                # The client has left, or there are no descriptors.
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if len(self.connections) >= MAX_CONNECTIONS:
                self._note(f"it has {MAX_CONNECTIONS} connections at once, so further ones are reset")
                _reset(client)
                continue
            task = asyncio.create_task(self._forward(client, destination))
            self.connections.add(task)
            task.add_done_callback(self.connections.discard)

    async def _forward(self, client: socket.socket, destination: Destination) -> None:
        """Connect to the destination, and copy until both sides have ended."""
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                server = await _connected(destination)
        except (OSError, UnicodeError) as error:
            host, port = destination
            reason = "it does not answer" if isinstance(error, TimeoutError) else str(error)
            self._note(
                f"{host} port {port}, which its project allows, cannot be reached from this machine: {reason}"
            )
            _reset(client)
            return
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(IDLE_SECONDS) as idle, asyncio.TaskGroup() as directions:
                directions.create_task(_copied(client, server, idle))
                directions.create_task(_copied(server, client, idle))
        except (ExceptionGroup, OSError):
            # One side was reset, so the other one is as well.
            _reset(client)
            _reset(server)
        finally:
            client.close()
            server.close()

    def _note(self, text: str) -> None:
        if text not in self.noted and len(self.noted) < MAX_CONNECTIONS:
            self.noted.add(text)
            with suppress(OSError):
                os.write(self.log, f"Forkline, of the network of this run: {text}.\n".encode())


async def _connected(destination: Destination) -> socket.socket:
    """A connection to the first address of a host that accepts one. Raises OSError."""
    loop = asyncio.get_running_loop()
    failed: OSError = OSError("the host has no address")
    for family, kind, protocol, _name, address in await loop.getaddrinfo(
        *destination, type=socket.SOCK_STREAM
    ):
        server = socket.socket(family, kind, protocol)
        try:
            server.setblocking(False)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (
                (socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS),
                (socket.TCP_KEEPINTVL, KEEPALIVE_SECONDS),
                (socket.TCP_KEEPCNT, KEEPALIVE_COUNT),
            ):
                server.setsockopt(socket.IPPROTO_TCP, option, value)
            async with asyncio.timeout(ADDRESS_SECONDS):
                await loop.sock_connect(server, address)
            return server
        except OSError as error:
            failed = error
            server.close()
        except BaseException:
            server.close()
            raise
    raise failed


async def _copied(source: socket.socket, target: socket.socket, idle: asyncio.Timeout) -> None:
    """Copy until the source ends, and end the target's reading side. Raises OSError."""
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, CHUNK):
        await loop.sock_sendall(target, data)
        idle.reschedule(loop.time() + IDLE_SECONDS)
    target.shutdown(socket.SHUT_WR)


def _reset(connection: socket.socket) -> None:
    """Close a connection so that its other side gets an error, not the end of the stream."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
