"""TLS with an own certificate, signed by an authority of the test: pages, sockets, refusals and renewal."""

import http.client
import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlencode

import pytest
from channels.db import database_sync_to_async
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from django.conf import LazySettings
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from checkpoint_site.middleware.throttle import client_address
from checkpoint_site.server import MAX_CONNECTIONS
from scripts.served_demo import free_port
from tests.environments import environment_with
from tests.jobs.conftest import ROOT
from tests.serving.conftest import SERVER, answers, server_with_limits
from tests.waiting import wait_until
from viewer.records.accounts import teammate
from viewer.tls import InvalidCertificate, is_covered, server_context

NAME = "localhost"
DAYS = timedelta(days=30)
HANDSHAKE_SECONDS = 2
FORKLINE = [sys.executable, "manage.py"]


@dataclass(frozen=True)
class Files:
    """A certificate and its key, and the authority that signed it."""

    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "chain.pem"

    @property
    def key(self) -> Path:
        return self.folder / "key.pem"

    @property
    def authority(self) -> Path:
        return self.folder / "authority.pem"

    def write(
        self, *names: str, begin: timedelta = -DAYS, end: timedelta = DAYS, password: bytes = b""
    ) -> "Files":
        """Write a new certificate and key, each at once, as programs that renew them do."""
        authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Authority of a test")])
        now = datetime.now(UTC)
        authority = (
            x509.CertificateBuilder(issuer, issuer, authority_key.public_key(), x509.random_serial_number())
            .not_valid_before(now - 3 * DAYS)
            .not_valid_after(now + 3 * DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(authority_key, hashes.SHA256())
        )
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
        leaf = (
            x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now + begin)
            .not_valid_after(now + end)
            .add_extension(x509.SubjectAlternativeName(list(map(_name, names or (NAME,)))), critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        encryption = BestAvailableEncryption(password) if password else NoEncryption()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        pem = authority.public_bytes(Encoding.PEM)
        replace(self.authority, pem)
        replace(self.certificate, leaf.public_bytes(Encoding.PEM) + pem)
        replace(self.key, private)
        return self


def _name(text: str) -> x509.GeneralName:
    return x509.IPAddress(ip_address(text)) if text[0].isdigit() else x509.DNSName(text)


def replace(file: Path, content: bytes) -> None:
    file.with_suffix(".new").write_bytes(content)
    file.with_suffix(".new").chmod(0o600)
    file.with_suffix(".new").replace(file)


@dataclass(frozen=True)
class TlsServer:
    """A running web server with an own certificate."""

    port: int
    process: "subprocess.Popen[bytes]"
    files: Files
    environment: dict[str, str]
    log: Path

    @property
    def origin(self) -> str:
        return f"https://{NAME}:{self.port}"

    def connected(self, version: ssl.TLSVersion | None = None) -> ssl.SSLSocket:
        """Return a connection that a client makes who trusts the authority only."""
        context = ssl.create_default_context(cafile=str(self.files.authority))
        if version:
            context.minimum_version = context.maximum_version = version
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        try:
            return context.wrap_socket(plain, server_hostname=NAME)
        except BaseException:
            plain.close()
            raise

    def asked(
        self, method: str, path: str, body: str = "", **headers: str
    ) -> tuple[http.client.HTTPResponse, str]:
        context = ssl.create_default_context(cafile=str(self.files.authority))
        connection = http.client.HTTPSConnection(NAME, self.port, timeout=60, context=context)
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        return answer, answer.read().decode()

    def serial(self) -> int:
        """Return the serial number of the certificate that a client without the name of a server gets."""
        pem = ssl.get_server_certificate(("127.0.0.1", self.port), timeout=30)
        return x509.load_pem_x509_certificate(pem.encode()).serial_number


@contextmanager
def served(folder: Path, command: list[str] = SERVER) -> Iterator[TlsServer]:
    files, port, log = Files(folder).write(NAME, "127.0.0.1"), free_port(), folder / "log"
    own = {"TLS_CERTIFICATE": str(files.certificate), "TLS_KEY": str(files.key), "PORT": str(port)}
    environment = environment_with(None, **own)
    with log.open("wb") as written:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=written)
    try:
        wait_until(lambda: answers(port) or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield TlsServer(port, process, files, environment, log)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def tls_server(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    with served(tmp_path_factory.mktemp("tls")) as started:
        yield started


def test_pages_are_served_over_tls_only(tls_server: TlsServer) -> None:
    answer, page = tls_server.asked("GET", "/login/")
    assert answer.status == 200 and "<form" in page
    assert answer.getheader("Strict-Transport-Security") == "max-age=31536000"
    assert answer.getheader("Set-Cookie", "").startswith("forkline_csrf_")
    assert "; Secure" in answer.getheader("Set-Cookie", "")
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        tls_server.connected(version).close()
    with pytest.raises(ssl.SSLError), pytest.warns(DeprecationWarning):
        tls_server.connected(ssl.TLSVersion.TLSv1_1)


def test_plain_http_gets_no_page(tls_server: TlsServer) -> None:
    with socket.create_connection(("127.0.0.1", tls_server.port), timeout=30) as client:
        client.sendall(f"GET /login/ HTTP/1.1\r\nHost: {NAME}:{tls_server.port}\r\n\r\n".encode())
        with suppress(ConnectionError):
            # At most an alert of TLS.
            assert not client.recv(1000).startswith(b"HTTP")


@pytest.mark.django_db(transaction=True)
async def test_a_person_logs_in_and_opens_a_socket(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        user = await database_sync_to_async(teammate)("ada")
        # The tests' own hasher is none of the server's.
        user.password = PBKDF2PasswordHasher().encode("correct horse battery", "salt")
        await user.asave()
        answer, page = server.asked("GET", "/login/")
        cookie = answer.getheader("Set-Cookie", "").partition(";")[0]
        (token,) = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page))
        form = {"username": "ada", "password": "correct horse battery", "csrfmiddlewaretoken": token}
        headers = {
            "Cookie": cookie,
            "Origin": server.origin,
            "Content-Type": "application/x-www-form-urlencoded",
        }
        answer, page = server.asked("POST", "/login/", urlencode(form), **headers)
        assert answer.status == 302, page
        session = next(
            text for text in answer.headers.get_all("Set-Cookie", []) if text.startswith("forkline_session")
        )
        assert "; Secure" in session and "; HttpOnly" in session

        context = ssl.create_default_context(cafile=str(server.files.authority))
        address, cookies = f"wss://{NAME}:{server.port}/ws/home/", {"Cookie": session.partition(";")[0]}
        origin = Origin(server.origin)
        async with connect(address, ssl=context, origin=origin, additional_headers=cookies) as opened:
            # It stays open until the server ends.
            server.process.terminate()
            with pytest.raises(ConnectionClosed):
                while True:
                    await opened.recv()
        assert server.process.wait(60) == 0


def test_a_stalled_handshake_ends(django_db_setup: None, tmp_path: Path) -> None:
    with served(tmp_path, server_with_limits(HANDSHAKE_SECONDS=HANDSHAKE_SECONDS)) as server:
        for beginning in (b"", b"\x16\x03\x01\x02\x00\x01"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
                client.sendall(beginning)
                with suppress(ConnectionError):
                    assert client.recv(100) == b""


def test_stalled_handshakes_do_not_keep_out_others(django_db_setup: None, tmp_path: Path) -> None:
    with served(tmp_path, server_with_limits(HANDSHAKE_SECONDS=600)) as server, ExitStack() as clients:
        for _ in range(MAX_CONNECTIONS):
            clients.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=30))
        wait_until(lambda: server.asked("GET", "/healthz")[0].status == 200)


def test_the_check_accepts_only_the_configured_certificate(tls_server: TlsServer, tmp_path: Path) -> None:
    def checked(**changed: str) -> tuple[int, str]:
        ended = subprocess.run(
            [*FORKLINE, "web", "--check"],
            cwd=ROOT,
            env=tls_server.environment | changed,
            capture_output=True,
            text=True,
        )
        return ended.returncode, ended.stdout + ended.stderr

    assert checked() == (0, "ok\n")
    status, said = checked(TLS_CERTIFICATE=str(Files(tmp_path).write().certificate))
    assert status == 1 and "another certificate than TLS_CERTIFICATE" in said


def test_a_renewed_certificate_is_served_and_a_broken_one_is_not(tls_server: TlsServer) -> None:
    first, files = tls_server.serial(), tls_server.files
    files.write(NAME)
    wait_until(lambda: tls_server.serial() != first)
    assert tls_server.asked("GET", "/healthz")[0].status == 200

    second = tls_server.serial()
    valid, key = files.certificate.read_bytes(), files.key.read_bytes()
    replace(files.key, b"-----BEGIN PRIVATE KEY-----\nnone\n-----END PRIVATE KEY-----\n")
    wait_until(lambda: "The changed certificate is not used" in tls_server.log.read_text())
    files.write("elsewhere.example.org")
    wait_until(lambda: "elsewhere.example.org" in tls_server.log.read_text())
    assert tls_server.serial() == second
    replace(files.certificate, valid)
    replace(files.key, key)


def refused(files: Files, hosts: str = NAME) -> str:
    with pytest.raises(InvalidCertificate) as error:
        server_context(files.certificate, files.key, hosts.split(","))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_cannot_be_served_is_refused_with_what_helps(tmp_path: Path) -> None:
    files = Files(tmp_path).write()
    server_context(files.certificate, files.key, [NAME])

    assert "for localhost, but ALLOWED_HOSTS names 127.0.0.1" in refused(files, "127.0.0.1")
    assert "expired on 20" in refused(files.write(end=-timedelta(days=1)))
    assert "not valid before 20" in refused(files.write(begin=timedelta(days=1)))
    assert "is encrypted" in refused(files.write(password=b"secret"))
    files.write()
    files.key.chmod(0o644)
    assert "other users can read" in refused(files) and "chmod 6" in refused(files)
    first = files.key.read_bytes()
    files.write()
    replace(files.key, first)
    assert "is not the key of the certificate" in refused(files)
    for content in (b"", b"\0" * 100, files.certificate.read_bytes()):
        replace(files.key, content)
        assert "has no private key in PEM format" in refused(files)
    replace(files.key, b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    assert "cannot be used" in refused(files)
    files.write().key.unlink()
    assert refused(files).startswith("TLS_KEY")
    os.mkfifo(files.key, 0o600)
    assert refused(files).startswith("TLS_KEY")
    for content in (b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"x" * 2_000_000):
        replace(files.certificate, content)
        assert refused(files).startswith("TLS_CERTIFICATE")
    files.certificate.unlink()
    assert refused(files).startswith("TLS_CERTIFICATE")


@pytest.mark.parametrize(
    ("host", "names", "expected"),
    [
        ("forkline.example.org", ["forkline.example.org"], True),
        ("Forkline.Example.org", ["FORKLINE.example.org"], True),
        ("forkline.example.org", ["*.example.org"], True),
        ("a.forkline.example.org", ["*.example.org"], False),
        ("example.org", ["*.example.org", "forkline.example.org"], False),
        (".example.org", ["forkline.example.org"], True),
        (".example.org", ["notexample.org"], False),
        ("192.0.2.1", ["192.0.2.1"], True),
        ("192.0.2.1", ["*.0.2.1"], False),
        ("*", ["forkline.example.org"], True),
        ("localhost", ["*."], False),
    ],
)
def test_the_names_of_a_certificate_cover_a_host(host: str, names: list[str], expected: bool) -> None:
    assert is_covered(host, names) is expected


@pytest.mark.parametrize("command", [[*FORKLINE, "up"], [*FORKLINE, "web"], SERVER])
def test_an_invalid_certificate_ends_a_start_with_one_line(tmp_path: Path, command: list[str]) -> None:
    files = Files(tmp_path).write("elsewhere.example.org")
    own = {"TLS_CERTIFICATE": str(files.certificate), "TLS_KEY": str(files.key)}
    environment = environment_with(tmp_path / "data", PORT=str(free_port()), **own)
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and ended.stdout == ""
    # As root, a warning comes before it.
    assert "elsewhere.example.org" in ended.stderr.splitlines()[-1] and "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"TLS_KEY": ""}, "TLS_CERTIFICATE needs TLS_KEY."),
        ({"TLS_KEY": "key.pem"}, "TLS_KEY must be the absolute path of a file, not 'key.pem'."),
        (
            {"ALLOWED_ORIGINS": "http://localhost:8000"},
            "With TLS_CERTIFICATE, each of ALLOWED_ORIGINS must begin with https://.",
        ),
    ],
)
def test_invalid_settings_end_the_program_with_one_line(changed: dict[str, str], message: str) -> None:
    own = {"TLS_CERTIFICATE": "/chain.pem", "TLS_KEY": "/key.pem"} | changed
    ended = subprocess.run(
        [*FORKLINE, "check"], cwd=ROOT, env=environment_with(None, **own), capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (1, f"{message}\n")


def test_the_check_of_a_deployment_is_clean(tmp_path: Path) -> None:
    files = Files(tmp_path).write()
    own = {"TLS_CERTIFICATE": str(files.certificate), "TLS_KEY": str(files.key), "ALLOWED_HOSTS": NAME}
    environment = environment_with(tmp_path / "data", LISTEN_ADDRESS="0.0.0.0", **own)
    ended = subprocess.run(
        [*FORKLINE, "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr


def test_forwarded_addresses_count_only_behind_a_proxy(settings: LazySettings) -> None:
    settings.IS_BEHIND_TLS, settings.TLS_CERTIFICATE = True, None
    assert client_address("127.0.0.1", "192.0.2.1") == "192.0.2.1"
    settings.TLS_CERTIFICATE = Path("/chain.pem")
    assert client_address("127.0.0.1", "192.0.2.1") == "127.0.0.1"
