"""Connections that break, and servers that are hostile or of another version."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from django.core.management import CommandError

from tests.cli.test_hostile_names import FORGED, UNSAFE
from tests.jobs.conftest import StartWorker, marks
from tests.remote.conftest import PATIENCE, Forkline
from tests.waiting import wait_until
from viewer.cli.remote import server_at
from viewer.cli.running import event_document
from viewer.models import Checkpoint, Comment, Job

TOKEN = "fkl_" + "a" * 43


@dataclass
class Line:
    """A connection to a server that can be cut. It drops the next answers to requests for some addresses."""

    server: int
    # What the requests begin with whose answers are dropped, each once.
    drops: list[bytes] = field(default_factory=list)
    is_cut: bool = False
    refused: int = 0
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    requests: list[bytes] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _address = self.listener.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(("127.0.0.1", self.server)) as server:
            if self.is_cut:
                self.refused += 1
                return
            data = b""
            while b"\r\n\r\n" not in data:
                data += client.recv(65536)
            head, _mark, body = data.partition(b"\r\n\r\n")
            length = [
                int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
            ]
            while length and len(body) < length[0]:
                body += client.recv(65536)
            self.requests.append(head)
            host = f"Host: 127.0.0.1:{self.server}".encode()
            lines = [host if line.startswith(b"Host:") else line for line in head.split(b"\r\n")]
            server.sendall(b"\r\n".join([*lines, b"Connection: close", b"", b""]) + body)
            answer = b"".join(iter(lambda: server.recv(65536), b""))
            for dropped in self.drops:
                if head.startswith(dropped):
                    self.drops.remove(dropped)
                    return
            if not self.is_cut:
                client.sendall(answer)


@pytest.fixture
def line(forkline: Forkline) -> Iterator[Line]:
    made = Line(urlsplit(forkline.address).port or 0)
    threading.Thread(target=made.serve, daemon=True).start()
    yield made
    made.listener.close()


START = b"POST /api/commands/fork"


def test_a_start_whose_answer_is_lost_starts_once(
    forkline: Forkline, line: Line, checkpoint: Checkpoint, start_worker: StartWorker
) -> None:
    start_worker("succeeds.py")
    line.drops = [START, START]
    done = forkline.at(line.address).run("fork", checkpoint.target, "--wait")
    assert (done.returncode, "all done" in done.stdout) == (0, True), done
    assert "Trying again" in done.stderr and Job.objects.count() == 1
    assert checkpoint.location.project and len(marks(checkpoint.location.project)) == 1
    keys = {
        head.split(b"Idempotency-Key: ")[1].split(b"\r\n")[0]
        for head in line.requests
        if head.startswith(START)
    }
    assert len(keys) == 1 and sum(head.startswith(START) for head in line.requests) >= 3


def test_a_wait_outlives_a_broken_connection(
    forkline: Forkline, line: Line, checkpoint: Checkpoint, start_worker: StartWorker
) -> None:
    start_worker("succeeds_after_go.py")
    process = forkline.at(line.address).begin("fork", checkpoint.target, "--follow")
    wait_until(lambda: Job.objects.filter(status="running").exists())
    line.is_cut = True
    assert checkpoint.location.project
    (Path(checkpoint.location.project.folder) / "go").touch()
    wait_until(lambda: line.refused and Job.objects.filter(status="succeeded").exists())
    line.is_cut = False
    printed, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "all done" in printed) == (0, True), said
    assert "No answer from" in said and Job.objects.count() == 1


def test_followed_events_are_printed_once(
    forkline: Forkline, line: Line, checkpoint: Checkpoint, start_worker: StartWorker
) -> None:
    start_worker("succeeds.py")
    line.drops = [b"GET /api/jobs/"]
    done = forkline.at(line.address).run("fork", checkpoint.target, "--branch", "new", "--follow")
    lines = [text for text in done.stderr.splitlines() if "  new  " in text]
    shown = [event for event in Job.objects.get().events.all() if event_document(event)]
    assert len(lines) == len(shown) > 4 and "Task 1 started  (Writer)" in lines[1], done.stderr


def test_what_has_no_key_is_sent_once(
    forkline: Forkline, line: Line, checkpoint: Checkpoint, start_worker: StartWorker
) -> None:
    # With rows on a server, the host of the location redacts what a person writes.
    start_worker("succeeds.py")
    line.drops = [b"POST /api/commands/comments"]
    done = forkline.at(line.address).run("comments", checkpoint.target, "--add", "Greener?")
    assert done.returncode == 1 and "It may have been done" in done.stderr
    assert Comment.objects.count() == 1


# Servers that answer what they like.


@dataclass
class Liar:
    """A server with one answer to everything."""

    answer: bytes = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Forkline-Version": "9.9.9"})
    received: list[str] = field(default_factory=list)
    port: int = 0

    def says(self, document: Any, status: int = 200, **headers: str) -> None:
        self.answer = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.status, self.headers = status, {"Forkline-Version": "9.9.9", **headers}


@pytest.fixture
def liar() -> Iterator[Liar]:
    made = Liar()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.received.append(self.headers.get("Authorization", ""))
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(made.status)
            for name, value in {**made.headers, "Content-Length": str(len(made.answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(made.answer)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def victim(liar: Liar, tmp_path: Path) -> Forkline:
    (home := tmp_path / "home").mkdir()
    return Forkline(f"http://127.0.0.1:{liar.port}", TOKEN, home)


ESCAPES = f"x\n{FORGED}\x1b[2K\x1b]52;c;aGk=\x07\u202e\x9b31m\r"


def test_no_answer_controls_the_terminal(liar: Liar, victim: Forkline) -> None:
    whole = {"status": 0, "warnings": [ESCAPES], "unfinished": [], "file": None, "file_name": ""}
    for more in ([], ["--json"]):
        liar.says({**whole, "lines": [ESCAPES], "document": {ESCAPES: [ESCAPES]}})
        done = victim.run("list", "/x", *more)
        assert done.returncode == 0 and len(done.stderr.splitlines()) == len(done.stdout.splitlines()) == 1
        assert not UNSAFE & set(done.stdout + done.stderr), done
    for status in (403, 404, 409, 422, 500, 503):
        liar.says({"error": ESCAPES}, status)
        done = victim.run("note", "/x#y", "--star")
        assert done.returncode == 1 and not UNSAFE & set(done.stdout + done.stderr), done
        assert len(done.stderr.splitlines()) == 1
    liar.says({**whole, "file": ESCAPES, "file_name": "../../.bashrc\x1b[2K"})
    done = victim.run("export", "/x#y")
    assert not UNSAFE & set(done.stdout + done.stderr), done
    (written,) = (path for path in victim.folder.iterdir() if path.name != "data")
    assert written.is_file() and ".." not in written.name.split("/") and not written.name.startswith(".")


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"",
        b"[]",
        b"null",
        b'"x"',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"\xff\xfe",
        b'{"status": {}, "lines": 7, "warnings": {"a": 1}, "unfinished": [1, "x"], "document": []}',
        b'{"status": {}, "file": 3, "file_name": {}, "lines": {}}',
        b'{"status": 4711, "lines": [null, 1, {"a": []}], "warnings": [7]}',
        b'{"status": -1, "lines": "text", "document": "x"}',
        b'{"status": 1e999, "lines": []}',
    ],
)
def test_nonsense_is_one_line_and_a_failure(liar: Liar, victim: Forkline, answer: bytes) -> None:
    liar.says(answer)
    for more in ([], ["--json"]):
        done = victim.run("list", "/x", *more)
        assert done.returncode == 1 and "Traceback" not in done.stderr, done
        assert len(done.stderr.splitlines()) <= 2, done


def test_a_redirection_gets_no_token(liar: Liar, victim: Forkline) -> None:
    for status in (301, 302, 303, 307, 308):
        liar.says(b"", status, Location=f"http://localhost:{liar.port}/elsewhere")
        done = victim.run("list", "/x")
        assert done.returncode == 1 and "leads to another address" in done.stderr
    assert len(liar.received) == 5


def test_another_version_is_named(liar: Liar, victim: Forkline) -> None:
    liar.says({"error": "body.new_option: Extra inputs are not permitted"}, 422)
    done = victim.run("fork", "/x#y")
    assert "Extra inputs" in done.stderr and "runs Forkline 9.9.9" in done.stderr, done
    # One without these addresses.
    liar.says({"error": "There is no such object, or this token does not see it."}, 404)
    del liar.headers["Forkline-Version"]
    assert "may run another version" in victim.run("list", "/x").stderr


def test_a_server_that_is_away_is_named(liar: Liar, victim: Forkline) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    done = victim.at(f"http://127.0.0.1:{port}").run("note", "/x#y", "--star")
    assert done.returncode == 1 and f"No answer from http://127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://example.com", "not encrypted"),
        ("http://10.0.0.1:8000", "not encrypted"),
        ("http://127.0.0.1.example.com", "not encrypted"),
        ("http://2130706433", "not encrypted"),
        ("http://localhost@example.com", "Name a server"),
        ("https://ada:secret@example.com", "Name a server"),
        ("https://example.com/path", "Name a server"),
        ("https://example.com?x=1", "Name a server"),
        ("https://example.com#x", "Name a server"),
        ("ftp://example.com", "Name a server"),
        ("file:///etc/passwd", "Name a server"),
        ("example.com", "Name a server"),
        ("https://", "Name a server"),
        ("https://example.com:99999", "Name a server"),
        ("https://[::1", "Name a server"),
        ("https://exa\nmple.com", "Name a server"),
    ],
)
def test_other_addresses_are_refused(address: str, words: str) -> None:
    with pytest.raises(CommandError) as refused:
        server_at(address)
    assert words in str(refused.value)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a file with a certificate of localhost that nobody trusts, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    signed = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (file := tmp_path / "localhost.pem").write_bytes(
        key.private_bytes(*form) + signed.public_bytes(Encoding.PEM)
    )
    return file


def test_a_certificate_is_checked(certificate: Path, victim: Forkline) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    heard: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _address = listener.accept()
                with suppress(OSError), context.wrap_socket(client, server_side=True) as secure:
                    heard.append(b"")
                    # The head and the body may arrive one after the other.
                    while not heard[-1].endswith(b"}") and (part := secure.recv(10_000)):
                        heard[-1] += part
                    document = b'{"status": 0, "lines": ["all is well"]}'
                    head = b"HTTP/1.1 200 OK\r\nForkline-Version: 1\r\nContent-Length: %d\r\n\r\n" % len(
                        document
                    )
                    secure.sendall(head + document)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        there = victim.at(f"https://localhost:{listener.getsockname()[1]}")
        done = there.run("note", "/x#y", "--star")
        assert done.returncode == 1 and "certificate" in done.stderr and not any(heard), done
        # One that the person trusts.
        done = there.run("note", "/x#y", "--star", SSL_CERT_FILE=str(certificate))
        assert (done.stdout, done.returncode) == ("all is well\n", 0), done
        assert TOKEN.encode() in heard[-1]
