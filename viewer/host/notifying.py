"""Sends notifications by mail and webhook.

A webhook is a signed message to a URL that a person typed, and never to a private network unless that is
allowed. The name is resolved once; every address that it has must be public, and the connection goes to one
of these, so a second answer of the name server changes nothing. Redirects are not followed.
"""

import http.client
import ipaddress
import json
import logging
import socket
import ssl
import threading
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from smtplib import SMTPException
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import send_mail
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import override
from standardwebhooks import Webhook

from viewer.data_folder.changes import in_background
from viewer.models import Notification, NotificationTarget
from viewer.models.accounts import chosen_language
from viewer.records.notifications import collect, may_be_sent

# Seconds for the whole delivery, without resolving the name.
MAX_SECONDS = 5
# Translated addresses, of which the last 32 bits are an IPv4 address.
NAT64 = ipaddress.ip_network("64:ff9b::/96")


class NotDelivered(Exception):
    """Why a message was not accepted, in a few words. ``is_final`` if no attempt can succeed."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class Destination:
    """The parts of a webhook's URL."""

    is_secure: bool
    host: str
    port: int
    target: str


def destination_of(url: str) -> Destination:
    """Return the parts of a URL. Raises NotDelivered for one that is not allowed."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = (parts.hostname or "").encode("idna").decode()
    except ValueError:
        raise NotDelivered("invalid URL", is_final=True) from None
    is_plain = all("!" <= one <= "~" for one in url)
    if not host or not is_plain or parts.username is not None or parts.password is not None:
        raise NotDelivered("invalid URL", is_final=True)
    if parts.scheme != "https" and not (parts.scheme == "http" and settings.WEBHOOKS_TO_PRIVATE_ADDRESSES):
        raise NotDelivered("only https is allowed", is_final=True)
    query = f"?{parts.query}" if parts.query else ""
    return Destination(parts.scheme == "https", host, port, f"{parts.path or '/'}{query}")


def addresses_of(host: str, port: int) -> list[str]:
    """Return the addresses of a host. Raises NotDelivered if it has none, or one that is not allowed."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotDelivered("the host name cannot be resolved") from None
    addresses = list(dict.fromkeys(str(address[0]) for *_more, address in found))
    if not settings.WEBHOOKS_TO_PRIVATE_ADDRESSES and not all(map(is_public, addresses)):
        raise NotDelivered("the address is in a private network")
    return addresses


def is_public(text: str) -> bool:
    """Whether an address is public. An IPv6 address that embeds an IPv4 address is judged by the latter."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def deliver(url: str, secret: str, message_id: str, event: str, link: str) -> None:
    """Send a message, signed as Standard Webhooks defines it. Raises NotDelivered."""
    destination = destination_of(url)
    addresses = addresses_of(destination.host, destination.port)
    now = datetime.now(UTC)
    body = json.dumps({"type": event, "timestamp": now.isoformat(), "data": {"url": link}})
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Forkline",
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, now, body),
    }
    try:
        status = _post(destination, addresses, body.encode(), headers)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotDelivered(f"no answer ({type(error).__name__})") from None
    if not 200 <= status < 300:
        raise NotDelivered(f"HTTP status {status}", is_final=status == http.HTTPStatus.GONE)


def _post(destination: Destination, addresses: list[str], body: bytes, headers: dict[str, Any]) -> int:
    """Return the status of the response, whose body is not read."""
    connection = http.client.HTTPConnection(destination.host, destination.port)
    # A server that sends a byte from time to time reaches no timeout of the socket.
    deadline = threading.Timer(MAX_SECONDS, _end, [connection])
    deadline.daemon = True
    with closing(connection):
        connection.sock = _connected(addresses, destination.port)
        deadline.start()
        try:
            if destination.is_secure:
                connection.sock = ssl.create_default_context().wrap_socket(
                    connection.sock, server_hostname=destination.host, do_handshake_on_connect=False
                )
                connection.sock.do_handshake()
            connection.request("POST", destination.target, body, {"Host": _named(destination), **headers})
            return connection.getresponse().status
        finally:
            deadline.cancel()


def _named(destination: Destination) -> str:
    """The header that names the host."""
    host = f"[{destination.host}]" if ":" in destination.host else destination.host
    is_default = destination.port == (443 if destination.is_secure else 80)
    return host if is_default else f"{host}:{destination.port}"


def _connected(addresses: list[str], port: int) -> socket.socket:
    """Return a connection to the first of these addresses that accepts one. Raises OSError."""
    failure: OSError = OSError()
    for address in addresses[:2]:
        try:
            return socket.create_connection((address, port), timeout=MAX_SECONDS / 2)
        except OSError as error:
            failure = error
    raise failure


def _end(connection: http.client.HTTPConnection) -> None:
    """End a connection that another thread waits for."""
    with suppress(OSError):
        connection.sock.shutdown(socket.SHUT_RDWR)


# Sends the messages that are due. Of several workers, the one that claims a message sends it.


logger = logging.getLogger(__name__)

# Changes within this time are looked through once.
QUIET_SECONDS = 3.0
# How often messages are tried again.
RETRY_SECONDS = 30.0


def notifying() -> AbstractContextManager[None]:
    """Send the messages that are due, in a thread within the block."""
    return in_background("notifying", send_some, QUIET_SECONDS, RETRY_SECONDS)


def send_some() -> bool:
    """Send one of the messages that are due. Return whether there may be more."""
    if not NotificationTarget.objects.exists():
        return False
    message = _next()
    if message is None:
        collect()
        message = _next()
    if message and message.claim():
        send(message)
    return message is not None


def _next() -> Notification | None:
    due = Notification.objects.filter(due_at__lte=timezone.now(), sent_at=None)
    return due.select_related("target__user").order_by("due_at", "pk").first()


def send(message: Notification) -> None:
    """Send a claimed message, and record the result."""
    target = message.target
    link = settings.ALLOWED_ORIGINS[0] + message.path
    if not target.user.is_active:
        message.record_failure("the account is deactivated", is_final=True)
        return
    if not may_be_sent(message):
        message.record_failure("may no longer be seen", is_final=True)
        return
    try:
        if target.kind == NotificationTarget.Kind.WEBHOOK:
            deliver(target.address, target.secret, message.identifier, message.event, link)
        else:
            _mail(target, message, link)
    except NotDelivered as failure:
        message.record_failure(str(failure), is_final=failure.is_final)
    except (OSError, SMTPException, ValueError) as failure:
        # The text of a mail server may quote what it received.
        message.record_failure(f"not accepted ({type(failure).__name__})")
    except Exception as failure:
        logger.exception("sending a notification")
        message.record_failure(type(failure).__name__)
    else:
        message.record_sent()


def _mail(target: NotificationTarget, message: Notification, link: str) -> None:
    """Send a mail with the link, and nothing that a run has written."""
    if not settings.EMAIL_HOST:
        raise NotDelivered("no mail server is configured")
    with override(chosen_language(target.user) or settings.LANGUAGE_CODE):
        subject = str(Notification.Event(message.event).label)
        settings_page = settings.ALLOWED_ORIGINS[0] + reverse("notifications")
        text = f"{subject}\n\n{link}\n\n" + _("Choose what you receive: %s") % settings_page + "\n"
    send_mail(f"Forkline: {subject}", text, None, [target.address])
