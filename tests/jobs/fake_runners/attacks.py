"""Tries to leave its sandbox, once itself and once in a child that has left its session.

``attack.json`` in the project's folder has what to try. The result is what succeeded.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any


def attacks(given: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """The attacks by name. Each raises OSError if it fails."""
    found: dict[str, Callable[[], object]] = {}
    for path in given["read"]:
        found[f"read {path}"] = partial(_open, path)
    for path in given["write"]:
        found[f"write {path}"] = partial(_write, Path(path) / "left-by-an-attack")
    for path in given["replace"]:
        found[f"truncate {path}"] = partial(os.truncate, path, 0)
        found[f"rename {path}"] = partial(os.rename, path, f"{path}.taken")
        found[f"remove {path}"] = partial(os.unlink, path)
        found[f"link to {path}"] = partial(_through_link, path)
        found[f"hard link to {path}"] = partial(os.link, path, f"linked-{os.getpid()}")
    for process in given["processes"]:
        found[f"environment of {process}"] = partial(_environment, process)
        found[f"files of {process}"] = partial(os.listdir, f"/proc/{process}/root/etc")
        found[f"memory of {process}"] = partial(_open, f"/proc/{process}/mem")
        found[f"signal to {process}"] = partial(os.kill, process, 0)
    for address in given["addresses"]:
        host, _colon, port = address.rpartition(":")
        found[f"connect to {address}"] = partial(socket.create_connection, (host, int(port)), 2)
        found[f"datagram to {address}"] = partial(_datagram, host, int(port))
    for path in given["sockets"]:
        found[f"connect to {path}"] = partial(_connect, path)
    return found | (network_attacks(given["network"]) if "network" in given else {})


def network_attacks(given: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Attacks on a network of allowed hosts. None changes anything outside."""
    found: dict[str, Callable[[], object]] = {}
    for family in range(1, socket.AF_MAX if hasattr(socket, "AF_MAX") else 46):
        if family not in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
            found[f"socket of family {family}"] = partial(_socket, family, socket.SOCK_STREAM)
    for family in (socket.AF_INET, socket.AF_INET6):
        for protocol in (socket.IPPROTO_ICMP, socket.IPPROTO_RAW, socket.IPPROTO_UDP):
            found[f"raw socket {family} {protocol}"] = partial(_socket, family, socket.SOCK_RAW, protocol)
    found["a pair of datagram sockets"] = partial(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM)
    found["a route"] = partial(_netlink, RTM_NEWROUTE, struct.pack("8BI", 2, 0, 0, 0, 254, 3, 0, 1, 0))
    found["an address"] = partial(_netlink, RTM_NEWADDR, struct.pack("4BI", 2, 24, 0, 0, 1))
    found["a device"] = partial(_netlink, RTM_NEWLINK, struct.pack("BxHiII", 0, 1, 0, 0, 0))
    found["a descriptor of another program"] = _sockets_left
    found["the network of another process"] = _other_network
    for name in given["names"]:
        found[f"look up {name}"] = partial(_look_up, name)
    for path in ("/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf"):
        found[f"edit {path}"] = partial(_edit, path)
    for host, port in given["allowed"]:
        address = socket.getaddrinfo(host, port)[0][4][0]
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            found[f"listen at {address}:{port} {option}"] = partial(_listen, str(address), port, option)
        for other in given["closed_ports"]:
            found[f"connect to {host}:{other}"] = partial(socket.create_connection, (host, other), 2)
        found[f"leave {host}:{port} by its protocol"] = partial(
            _by_protocol, (host, port), f"127.0.0.1:{given['closed_ports'][0]}"
        )
    return found


RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE = 16, 20, 24


def _socket(family: int, kind: int, protocol: int = 0) -> None:
    socket.socket(family, kind, protocol).close()


def _netlink(kind: int, body: bytes) -> None:
    """Send the kernel a request that changes the network. Raises OSError if it is refused."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as opened:
        opened.send(struct.pack("IHHII", 16 + len(body), kind, 0x405, 1, 0) + body)
        number = struct.unpack_from("i", opened.recv(4096), 16)[0]
        if number:
            raise OSError(-number, os.strerror(-number))


def _sockets_left() -> None:
    """Find a socket among the descriptors of all processes in the sandbox that this program has not made."""
    for process in Path("/proc").glob("[0-9]*"):
        for link in process.glob("fd/*"):
            try:
                leads_to = str(link.readlink())
            except OSError:
                continue
            if leads_to.startswith(("socket:", "net:")):
                return
    raise FileNotFoundError


def _other_network() -> None:
    for process in Path("/proc").glob("[0-9]*"):
        own, other = Path("/proc/self/ns/net"), process / "ns/net"
        if own.readlink() != other.readlink():
            return
    raise FileNotFoundError


def _look_up(name: str) -> None:
    """Resolve a name that is not allowed. The errors are OSErrors."""
    socket.getaddrinfo(name, 80)


def _edit(path: str) -> None:
    """Open a file by which names are found for writing, or change its mode. Nothing of it changes."""
    attempts: list[Callable[[], object]] = [
        lambda: os.close(os.open(path, os.O_WRONLY)),
        lambda: Path(path).chmod(Path(path).stat().st_mode & 0o7777),
        lambda: _replaceable(Path(path)),
    ]
    for attempt in attempts:
        try:
            attempt()
        except OSError:
            continue
        return
    raise PermissionError


def _replaceable(path: Path) -> None:
    beside = path.with_name(f"{path.name}-{os.getpid()}")
    beside.touch()
    beside.unlink()


def _listen(address: str, port: int, option: int) -> None:
    """Take the place of the socket by which an allowed host is reached."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as own:
        own.setsockopt(socket.SOL_SOCKET, option, 1)
        own.bind((address, port))
        own.listen()


def _by_protocol(allowed: tuple[str, int], closed: str) -> None:
    """Ask what answers at an allowed host to lead elsewhere, as proxies do."""
    for request in (
        f"CONNECT {closed} HTTP/1.1\r\nHost: {closed}\r\n\r\n",
        f"GET http://{closed}/ HTTP/1.1\r\nHost: {closed}\r\nX-Forwarded-Host: {closed}\r\n\r\n",
        "\x05\x01\x00",
        f"PROXY TCP4 127.0.0.1 127.0.0.1 1 {closed.rpartition(':')[2]}\r\n",
    ):
        with socket.create_connection(allowed, 5) as client:
            client.sendall(request.encode())
            client.shutdown(socket.SHUT_WR)
            if b"of what is closed" in b"".join(iter(lambda: client.recv(4096), b"")):
                return
    raise PermissionError


def _open(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY))


def _environment(process: int) -> None:
    if not Path(f"/proc/{process}/environ").read_bytes():
        raise PermissionError


def _write(path: Path) -> None:
    path.write_text("written")


def _through_link(path: str) -> None:
    link = Path(f"link-{os.getpid()}")
    link.unlink(missing_ok=True)
    link.symlink_to(path)
    link.read_bytes()


def _datagram(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.connect((host, port))
        sender.send(b"out")
        sender.settimeout(0.5)
        sender.recv(10)


def _connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def tried(given: dict[str, Any]) -> list[str]:
    """The names of the attacks that succeeded."""
    succeeded = []
    for name, attack in attacks(given).items():
        try:
            attack()
        except OSError:
            continue
        succeeded.append(name)
    return succeeded


def in_child(given: dict[str, Any]) -> list[str]:
    """The same, in a process that its parent has left, in another session, in another program."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            again = subprocess.run(
                [sys.executable, __file__, json.dumps(given)],
                stdout=subprocess.PIPE,
                check=False,
                env={"PATH": os.defpath},
            )
            os.write(writing, again.stdout)
            os._exit(0)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        return [f"child: {name}" for name in json.loads(file.read() or b'["it said nothing"]')]


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("{"):
        print(json.dumps(tried(json.loads(sys.argv[1]))))
        sys.exit()
    import tiny

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    spool = tiny.begin()
    given = json.loads(Path("attack.json").read_text())
    succeeded = tried(given) + in_child(given)
    count = 2 * len(attacks(given))
    spool.write("ended", status="succeeded", result=json.dumps([count, succeeded]), error="", traceback="")
