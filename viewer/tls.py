"""The web server's own TLS: checks the files TLS_CERTIFICATE and TLS_KEY, and loads renewed ones."""

import ipaddress
import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from viewer.validation import InvalidInput, content_of, one_line, shortened

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 1024 * 1024
# Characters of a path, and names of a certificate, that a message shows.
MAX_SHOWN, MAX_NAMES = 300, 5
DAY = "%Y-%m-%d %H:%M UTC"

# What changes when a file is written, replaced or made readable; None for a file that is missing.
Stamp = tuple[tuple[int, ...] | None, ...]


class InvalidCertificate(Exception):
    """The certificate or its key cannot be served. The text says in one line what to change."""


def server_context(certificate: Path, key: Path, hosts: Sequence[str]) -> ssl.SSLContext:
    """Return what serves a certificate chain in PEM format, for at least one of the hosts.

    Raise InvalidCertificate for a pair that browsers or the owner of the key would not accept.
    """
    leaf = first_certificate(certificate)
    _refuse_wrong_time(certificate, leaf)
    _refuse_other_names(certificate, leaf, hosts)
    _refuse_open_key(key)
    if b"PRIVATE KEY-----" not in _content("TLS_KEY", key):
        raise InvalidCertificate(f"TLS_KEY: {_shown(key)} has no private key in PEM format.")

    def refuse_encrypted() -> NoReturn:
        # Otherwise OpenSSL asks at the terminal.
        command = "openssl pkey -in ENCRYPTED -out KEY"
        raise InvalidCertificate(f"TLS_KEY: {_shown(key)} is encrypted. Decrypt it with: {command}")

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, refuse_encrypted)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"TLS_KEY: {_shown(key)} is not the key of the certificate in {_shown(certificate)}."
            raise InvalidCertificate(text) from None
        reason = one_line(error.reason or str(error))
        raise InvalidCertificate(f"TLS_CERTIFICATE and TLS_KEY cannot be used ({reason}).") from None
    except OSError as error:
        raise InvalidCertificate(f"TLS_KEY: {_shown(key)} cannot be read ({error.strerror}).") from None
    return context


def client_context(certificate: Path) -> ssl.SSLContext:
    """Return what accepts a server only if it has the key of this certificate, whatever its address.

    Raise InvalidCertificate if the file cannot be read.
    """
    from cryptography.hazmat.primitives.serialization import Encoding

    leaf = first_certificate(certificate).public_bytes(Encoding.PEM).decode()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Only this certificate is trusted, not who signed it. It has the names of the site, not of 127.0.0.1.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.check_hostname = False
    context.load_verify_locations(cadata=leaf)
    return context


def first_certificate(file: Path) -> Any:
    """Return the first certificate of a PEM file, which is the server's. Raise InvalidCertificate."""
    # Imported here: most servers have no certificate.
    from cryptography import x509

    faults = (IndexError, ValueError, x509.InvalidVersion, x509.DuplicateExtension)
    try:
        leaf = x509.load_pem_x509_certificates(_content("TLS_CERTIFICATE", file))[0]
        # Both are only parsed now.
        _names_and_time = leaf.extensions, leaf.not_valid_before_utc, leaf.not_valid_after_utc
    except (*faults, x509.UnsupportedGeneralNameType) as error:
        text = f"TLS_CERTIFICATE: {_shown(file)} has no certificate in PEM format that can be read."
        raise InvalidCertificate(text) from error
    return leaf


def _refuse_wrong_time(file: Path, leaf: Any) -> None:
    now, first, last = datetime.now(UTC), leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if now > last:
        raise InvalidCertificate(f"TLS_CERTIFICATE: {_shown(file)} expired on {last:{DAY}}. Renew it.")
    if now < first:
        text = f"is not valid before {first:{DAY}}. Check the clock of this machine."
        raise InvalidCertificate(f"TLS_CERTIFICATE: {_shown(file)} {text}")


def _refuse_other_names(file: Path, leaf: Any, hosts: Sequence[str]) -> None:
    names = _names(leaf)
    if any(is_covered(host, names) for host in hosts):
        return
    shown = ", ".join(shortened(name) for name in names[:MAX_NAMES]) or "no host"
    known = ", ".join(shortened(host) for host in hosts[:MAX_NAMES])
    text = f"is for {shown}, but ALLOWED_HOSTS names {known}. Set ALLOWED_HOSTS to a name of the certificate."
    raise InvalidCertificate(f"TLS_CERTIFICATE: {_shown(file)} {text}")


def _names(leaf: Any) -> list[str]:
    """Return the DNS names and IP addresses of a certificate. Browsers read no others."""
    from cryptography import x509

    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = found.get_values_for_type(x509.IPAddress)
    return [*found.get_values_for_type(x509.DNSName), *map(str, addresses)]


def is_covered(host: str, names: Sequence[str]) -> bool:
    """Return whether a certificate with these names is for a host, as it is written in ALLOWED_HOSTS.

    There, ``.example.org`` are also the hosts below example.org, and ``*`` are all.
    """
    host = host.strip().strip("[]").lower()
    if host == "*":
        return bool(names)
    try:
        return str(ipaddress.ip_address(host)) in names
    except ValueError:
        lower = [name.lower() for name in names]
    if host.startswith("."):
        return any(f".{name}".endswith(host) for name in lower)
    above = host.partition(".")[2]
    return host in lower or (bool(above) and f"*.{above}" in lower)


def _refuse_open_key(key: Path) -> None:
    try:
        state = key.stat()
    except OSError as error:
        raise InvalidCertificate(f"TLS_KEY: {_shown(key)} cannot be read ({error.strerror}).") from None
    # PostgreSQL has the same rule: a server that is not root's reads a key of root through a group.
    is_of_root = state.st_uid == 0
    if state.st_mode & (0o037 if is_of_root else 0o077):
        advice = f"Make it private: chmod {640 if is_of_root else 600}"
        raise InvalidCertificate(f"TLS_KEY: other users can read {_shown(key)}. {advice}")


def _content(name: str, file: Path) -> bytes:
    try:
        return content_of(str(file), MAX_FILE_BYTES)
    except InvalidInput as error:
        raise InvalidCertificate(str(error.of(name))) from None
    except OSError as error:
        raise InvalidCertificate(f"{name}: {_shown(file)} cannot be read ({error.strerror}).") from None


def _shown(file: Path) -> str:
    return shortened(str(file), MAX_SHOWN)


@dataclass
class Certificate:
    """What the server shows to new connections. A renewed pair replaces it, unless it is invalid."""

    certificate: Path
    key: Path
    hosts: Sequence[str]
    # What connections begin with. Each then gets the newest one.
    context: ssl.SSLContext = field(init=False)
    newest: ssl.SSLContext = field(init=False)
    tried: Stamp = field(init=False)
    seen: Stamp = field(init=False)

    def __post_init__(self) -> None:
        """Load it. Raise InvalidCertificate."""
        self.tried = self.seen = self.stamp()
        self.context = self.newest = server_context(self.certificate, self.key, self.hosts)
        # Loading a pair into a context that serves would leave it without a key if the pair does not match.
        self.context.sni_callback = self.choose

    def choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Have a new connection show the newest certificate. OpenSSL asks for clients without a name, too."""
        connection.context = self.newest

    def renew(self) -> None:
        """Load files that have changed. Called once a second."""
        # The certificate and its key are written one after the other.
        before, self.seen = self.seen, self.stamp()
        if self.seen == self.tried or self.seen != before:
            return
        self.tried = self.seen
        try:
            self.newest = server_context(self.certificate, self.key, self.hosts)
        except InvalidCertificate as error:
            logger.warning(
                "The changed certificate is not used; the one before it is still served. %s", error
            )
        else:
            logger.info("The renewed certificate is served.")

    def stamp(self) -> Stamp:
        """Return what changes with the files."""
        return tuple(map(_stamp, (self.certificate, self.key)))


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
