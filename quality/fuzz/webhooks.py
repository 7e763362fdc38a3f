"""Sends notifications to addresses that must not be reached, to hostile receivers, and by several workers.

Passes if no address in a private network is connected to, however it is written and resolved, if every
delivery ends in seconds and follows no redirect, if each message arrives once with a signature that no other
message has, and if nothing arrives for somebody who may no longer see what it is about.
"""

import ipaddress
import json
import logging
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from quality.fuzz.quotas import at_once
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import temporary_data_folder

ADDRESSES, FORGED, MESSAGES, WORKERS = 3000, 300, 20, 8
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
# Longer than a delivery may take (viewer/host/notifying.py), on a busy machine.
SECONDS = 12
PRIVATE = (
    *("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10"),
    *("0.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "198.18.0.0/15", "192.0.0.0/29"),
    *("::1/128", "::/128", "fe80::/10", "fc00::/7", "ff00::/8", "fec0::/10", "2001:db8::/32", "100::/64"),
)
PUBLIC = ("8.8.8.8", "1.1.1.1", "2001:4860:4860::8888", "2606:4700::1111", "::ffff:8.8.8.8")


# Addresses that must not be reached.


def private_address(chance: random.Random) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    network = ipaddress.ip_network(chance.choice(PRIVATE))
    return network[chance.randrange(network.num_addresses)]


def spelled(chance: random.Random, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Return the address as a URL may have it, in one of many notations."""
    if isinstance(address, ipaddress.IPv6Address):
        text = chance.choice((address.compressed, address.exploded, address.compressed.upper()))
        return f"[{text}{chance.choice(('', '', '%25lo', '%lo'))}]"
    number, parts = int(address), list(address.packed)
    octal, hexadecimal = [f"0{part:o}" for part in parts], [f"0x{part:x}" for part in parts]
    mixed = [chance.choice((str(one), f"0{one:o}", f"0x{one:02X}")) for one in parts]
    inner = f"{number >> 16:x}:{number & 0xFFFF:x}"
    wide = str(address).translate({ord(str(one)): 0xFF10 + one for one in range(10)})
    return chance.choice(
        (
            *(str(address), str(number), hex(number), f"0{number:o}", ".".join(octal), ".".join(hexadecimal)),
            *(".".join(mixed), f"{parts[0]}.{number & 0xFFFFFF}", f"{parts[0]}.{parts[1]}.{number & 0xFFFF}"),
            *(f"{address}.", wide, str(address).replace(".", "\u3002"), str(address).replace(".", "\uff0e")),
            *(f"[::ffff:{address}]", f"[::ffff:{inner}]", f"[::{address}]", f"[64:ff9b::{inner}]"),
            *(
                f"[2002:{inner}::]",
                f"[64:ff9b:1::{inner}]",
                f"[2001:0:{inner}::]",
                f"[0:0:0:0:0:FFFF:{inner}]",
            ),
            *(f"a@{address}", f"a:b@{address}", f"example.org@{address}", f"{address}%00.example.org"),
            *(f"{address}#.example.org", f"{address}?.example.org", f"{address}\\.example.org", "localhost"),
            *(f"example.org:80@{address}", "LOCALHOST.", "localhost.localdomain", f"[::ffff:0:{inner}]"),
        )
    )


@contextmanager
def without_network(names: dict[str, list[str]]) -> Iterator[list[Any]]:
    """Resolve only numbers and these names within the block, and yield what is connected to."""
    resolve, connect = socket.getaddrinfo, socket.create_connection
    connected: list[Any] = []

    def resolved(host: Any, port: Any, *arguments: Any, **more: Any) -> Any:
        if host in names:
            return [found for one in names[host] for found in resolve(one, port, *arguments, **more)]
        if str(host).lower().startswith("localhost"):
            return resolve(host, port, *arguments, **more)
        return resolve(host, port, *arguments, **{**more, "flags": socket.AI_NUMERICHOST})

    def refused(address: Any, *_arguments: Any, **_more: Any) -> Any:
        connected.append(address)
        # The name server answers otherwise from now on.
        names.update({name: ["127.0.0.1"] for name in names})
        raise ConnectionRefusedError

    socket.getaddrinfo, socket.create_connection = resolved, refused
    try:
        yield connected
    finally:
        socket.getaddrinfo, socket.create_connection = resolve, connect


def attack_addresses(chance: random.Random, counts: Counter[str], tries: int) -> list[str]:
    """Deliver to private addresses, to names of them, and to public ones. Return what was wrong."""
    from viewer.host.notifying import NotDelivered

    wrong = list[str]()
    for _ in range(tries):
        address = private_address(chance)
        kind = chance.choice(("as a number", "as a number", "as a name", "among others", "rebinding"))
        names = {
            "as a name": [str(address)],
            "among others": chance.sample([str(address), *PUBLIC[:2]], 3),
            "rebinding": chance.sample(PUBLIC, 2),
        }.get(kind, [])
        host = "name.example" if names else spelled(chance, address)
        with without_network({"name.example": list(names)}) as connected:
            try:
                deliver(f"https://{host}/")
            except NotDelivered:
                counts[f"refused {kind}"] += 1
        allowed = {(name, 443) for name in names} if kind == "rebinding" else set()
        if set(connected) - allowed or (allowed and not connected):
            wrong.append(f"{kind} {host}, {names}: connected to {connected}")
    return wrong


def deliver(url: str, message: str = "msg_1_1", event: str = "job.ended", secret: str = SECRET) -> None:
    from viewer.host import notifying

    notifying.deliver(url, secret, message, event, "https://forkline.example/jobs/1/")


# Hostile receivers.


def send_slowly(client: socket.socket, stopping: threading.Event) -> None:
    while not stopping.wait(0.05):
        client.sendall(b"H")


def send_headers(client: socket.socket, stopping: threading.Event) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\n")
    while not stopping.is_set():
        client.sendall(b"X: y\r\n" * 10)


def send_line(client: socket.socket, stopping: threading.Event) -> None:
    while not stopping.is_set():
        client.sendall(b"HTTP/1.1 200 " + b"x" * 100_000)


def send_body(client: socket.socket, stopping: threading.Event) -> None:
    client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not stopping.is_set():
        client.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")


def send_interim(client: socket.socket, stopping: threading.Event) -> None:
    while not stopping.is_set():
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def send_interim_slowly(client: socket.socket, stopping: threading.Event) -> None:
    while not stopping.wait(0.2):
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def send_nothing(_client: socket.socket, stopping: threading.Event) -> None:
    stopping.wait()


def end_at_once(_client: socket.socket, _stopping: threading.Event) -> None:
    return


def answering(*texts: bytes) -> list[Callable[[socket.socket, threading.Event], None]]:
    def made(text: bytes) -> Callable[[socket.socket, threading.Event], None]:
        return lambda client, _stopping: client.sendall(text)

    return [made(text) for text in texts]


# The first are accepted: their status is known before the rest.
RECEIVERS: dict[str, tuple[bool, list[Callable[[socket.socket, threading.Event], None]]]] = {
    "endless body": (True, [send_body]),
    "endless": (
        False,
        [send_slowly, send_headers, send_line, send_interim, send_interim_slowly, send_nothing],
    ),
    "closes": (False, [end_at_once]),
    "malformed": (
        False,
        answering(
            *(
                b"\x00" * 1000,
                b"HTTP/1.1 2\xb2\xb2 OK\r\n\r\n",
                b"HTTP/1.1 -200 OK\r\n\r\n",
                b"SSH-2.0-x\r\n",
            ),
            *(b"HTTP/1.1 99999 OK\r\n\r\n", b"HTTP/9.9 200 OK\r\n\r\n", b"\r\n\r\n", b"HTTP/1.1"),
        ),
    ),
}


class Receiver:
    """A server on this machine that answers each delivery with the next of these functions."""

    def __init__(self) -> None:
        self.acts: list[Callable[[socket.socket, threading.Event], None]] = []
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.stopping = threading.Event()
        self.server = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _address = self.server.accept()
                threading.Thread(target=self._answer, args=[client], daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        # A handshake of TLS is no HTTP.
        with suppress(OSError, ValueError), client:
            text = b""
            while b"\r\n\r\n" not in text and (more := client.recv(65536)):
                text += more
            head, _blank, body = text.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:])
            while len(body) < int(headers.get("Content-Length", 0)):
                body += client.recv(65536)
            self.received.append((headers, body))
            if self.acts:
                self.acts[0](client, self.stopping)
            else:
                client.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    def close(self) -> None:
        self.stopping.set()
        self.server.close()


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Allow deliveries to this machine within the block. Yield a receiver on it."""
    from django.conf import settings

    receiver = Receiver()
    settings.WEBHOOKS_TO_PRIVATE_ADDRESSES = True
    try:
        yield receiver
    finally:
        settings.WEBHOOKS_TO_PRIVATE_ADDRESSES = False
        receiver.close()


def attack_receivers(counts: Counter[str]) -> list[str]:
    """Deliver to each kind of receiver, all at the same time. Return what was wrong."""
    from viewer.host.notifying import NotDelivered

    cases = [
        (kind, is_accepted, act, "http") for kind, (is_accepted, acts) in RECEIVERS.items() for act in acts
    ]
    # Without TLS, its handshake never ends.
    cases += [(kind, False, act, "https") for kind, _accepted, act, _scheme in cases]
    with receiving() as target:
        redirects = [
            f"HTTP/1.1 {status} x\r\nLocation: {target.url}\r\nContent-Length: 0\r\n\r\n".encode()
            for status in (300, 301, 302, 303, 307, 308)
        ]
        cases += [("redirects", False, act, "http") for act in answering(*redirects)]

        def tried(number: int) -> tuple[str, float]:
            kind, is_accepted, act, scheme = cases[number]
            receiver = Receiver()
            receiver.acts = [act]
            began = time.monotonic()
            try:
                deliver(receiver.url.replace("http:", f"{scheme}:"))
                fault = "" if is_accepted else f"{kind}: was accepted"
            except NotDelivered as error:
                fault = f"{kind}: {error}" if is_accepted else ""
            took = time.monotonic() - began
            receiver.close()
            return fault or (f"{kind}: took {took:.1f} s" if took > SECONDS else ""), took

        found = at_once(tried, len(cases))
        followed = len(target.received)
    for kind, *_more in cases:
        counts[kind] += 1
    counts["slowest ms"] = int(1000 * max(took for _fault, took in found))
    return [fault for fault, _took in found if fault] + ["redirects: followed"] * followed


# Signatures.


def attack_signatures(chance: random.Random, counts: Counter[str], tries: int) -> list[str]:
    """Change signed deliveries in every part. Return those that the standard's verifier accepts."""
    from standardwebhooks import Webhook, WebhookVerificationError

    with receiving() as receiver:
        deliver(receiver.url, "msg_1_1", "job.ended")
        deliver(receiver.url, "msg_2_1", "question.waiting")
        (first, body), (second, other) = receiver.received
    if Webhook(SECRET).verify(body, first)["type"] != "job.ended":
        return ["a delivery is not as it was signed"]
    wrong = list[str]()
    for _ in range(tries):
        kind, headers, text, secret = changed_delivery(chance, dict(first), body, (second, other))
        if (headers, text, secret) == (first, body, SECRET):
            continue
        counts[kind] += 1
        with suppress(WebhookVerificationError, ValueError):
            Webhook(secret).verify(text, headers)
            wrong.append(f"{kind}: accepted {headers} {text!r}")
    # What was signed long ago is refused, though its signature is right.
    then = datetime.now(UTC) - timedelta(minutes=6)
    replayed = {
        "webhook-id": "msg_1_1",
        "webhook-timestamp": str(int(then.timestamp())),
        "webhook-signature": Webhook(SECRET).sign("msg_1_1", then, body.decode()),
    }
    counts["replayed"] += 1
    with suppress(WebhookVerificationError):
        Webhook(SECRET).verify(body, replayed)
        wrong.append("replayed: accepted after six minutes")
    return wrong


def changed_delivery(
    chance: random.Random, headers: dict[str, str], body: bytes, other: tuple[dict[str, str], bytes]
) -> tuple[str, dict[str, str], bytes, str]:
    """Return what was changed in a delivery, and its headers, body and secret."""
    kind = chance.choice(("body", "header", "of another message", "old", "secret", "version"))
    secret = SECRET
    if kind == "body":
        at = chance.randrange(len(body))
        body = chance.choice((body[:at] + b"x" + body[at + 1 :], body + b" ", body[:at], b"", other[1]))
    elif kind == "header":
        name = chance.choice(("webhook-id", "webhook-timestamp", "webhook-signature"))
        value = headers[name]
        headers[name] = chance.choice((f"1{value}", value[:-3], "", "0", value[::-1]))
    elif kind == "of another message":
        name = chance.choice(("webhook-id", "webhook-signature"))
        headers[name] = other[0][name]
    elif kind == "old":
        seconds = chance.choice((-1, 1)) * chance.randrange(1, 10**6)
        headers["webhook-timestamp"] = str(int(headers["webhook-timestamp"]) + seconds)
    elif kind == "secret":
        secret = f"whsec_{''.join(chance.choices('abcdefgh', k=32))}"
    else:
        version = chance.choice(("v1a,", "v2,", ""))
        headers["webhook-signature"] = headers["webhook-signature"].replace("v1,", version)
    return kind, headers, body, secret


# Messages.


def attack_messages(counts: Counter[str], folder: Path, count: int) -> list[str]:
    """Send messages by many workers at once, of which some are about what may no longer be seen."""
    from viewer.host.notifying import send_some
    from viewer.models import Notification
    from viewer.records.notifications import collect

    with receiving() as receiver:
        targets = [target_of(folder, receiver.url) for _ in range(count)]
        collect()
        stored = Notification.objects.count()
        endings = [change(target) for target, change in zip(targets, ENDINGS * count, strict=False)]
        lost = [ending for ending in endings if ending]

        def work(_number: int) -> None:
            while send_some():
                pass

        at_once(work, WORKERS)
        arrived = Counter(headers["webhook-id"] for headers, _body in receiver.received)
        urls = Counter(json.loads(body)["data"]["url"] for _headers, body in receiver.received)
    counts["stored"] += stored
    counts["arrived"] += len(arrived)
    counts["lost the right"] += len(lost)
    wrong = [f"{one} arrived {times} times" for one, times in arrived.items() if times > 1]
    wrong += [f"{one} arrived {times} times" for one, times in urls.items() if times > 1]
    wrong += [f"arrived after {how}" for how, path in lost if any(url.endswith(path) for url in urls)]
    if stored != count or len(arrived) != count - len(lost):
        wrong.append(f"{len(arrived)} of {stored} arrived")
    return wrong


def target_of(folder: Path, url: str) -> Any:
    """Return the webhook of a new person, one of whose jobs has ended."""
    from django.contrib.auth.models import User
    from django.utils import timezone

    from viewer.models import Job, Level, Location, NotificationTarget, Role

    location = Location.objects.create(path=f"{folder}/{uuid4().hex}", store_kind="json")
    user = User.objects.create_user(f"person {uuid4().hex}")
    Role.objects.create(user=user, location=location, level=Level.OPERATOR)
    target = NotificationTarget.objects.create(
        user=user, kind="webhook", address=url, secret=SECRET, since=timezone.now() - timedelta(minutes=1)
    )
    Job.objects.create(
        kind="fork", location=location, status="succeeded", ended_at=timezone.now(), requested_by=user
    )
    return target


def role_taken(target: Any) -> tuple[str, str] | None:
    target.user.roles.all().delete()
    return "the role was taken", target.notifications.get().path


def deactivated(target: Any) -> tuple[str, str] | None:
    type(target.user).objects.filter(pk=target.user.pk).update(is_active=False)
    return "the account was deactivated", target.notifications.get().path


def removed(target: Any) -> tuple[str, str] | None:
    from viewer.models import Job

    path = target.notifications.get().path
    Job.objects.filter(requested_by=target.user).delete()
    return "the job was deleted", path


def unchanged(_target: Any) -> tuple[str, str] | None:
    return None


ENDINGS = [unchanged, role_taken, unchanged, deactivated, unchanged, removed]


def attack(folder: Path) -> int:
    """Print a table of each attack. Return 1 if a check failed."""
    chance, all_wrong = random.Random(3), list[str]()
    attacks: dict[str, Callable[[Counter[str]], list[str]]] = {
        "addresses of webhooks": lambda counts: attack_addresses(chance, counts, ADDRESSES),
        "receivers": attack_receivers,
        "changed deliveries": lambda counts: attack_signatures(chance, counts, FORGED),
        "messages": lambda counts: attack_messages(counts, folder, MESSAGES),
    }
    for name, attack_some in attacks.items():
        counts = Counter[str]()
        wrong = attack_some(counts)
        print_heading(name, "count", "wrong")
        for kind, count in sorted(counts.items()):
            print_row(kind, count, sum(fault.startswith(kind) for fault in wrong))
        print()
        all_wrong += wrong
    print(*all_wrong[:40], sep="\n")
    return int(bool(all_wrong))


def main() -> int:
    logging.disable()
    with temporary_data_folder() as folder:
        return attack(folder)


if __name__ == "__main__":
    sys.exit(main())
