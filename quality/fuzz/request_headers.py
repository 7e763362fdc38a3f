"""Sends thousands of requests with malformed headers and addresses to a web server, for pages and sockets.

Passes if each is answered or closed within seconds, none with a status of 500 or more, and each leaves at
most one line in the log, without a traceback.
"""

import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT, temporary_data_folder
from scripts.served_demo import free_port

CLIENTS = 8
ANSWER_SECONDS = 20
LINE = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z [A-Z]+ ")

ADDRESSES = (
    "GET /",
    "GET /jobs/",
    "GET /login/?next=//evil.example",
    "POST /login/",
    "GET /login/link/?sesame=x",
    "POST /login/link/?sesame=%ff",
    "POST /locations/add/",
    "POST /settings/save/",
    "GET /shared/x/",
    "GET /static/icon.svg",
    "GET /nowhere/",
    "SOCKET /ws/home/",
    "SOCKET /ws/shared/x/",
    "SOCKET /nowhere/",
)
# HOST is the server's own.
ORIGINS = (
    "http://HOST",
    "http://127.0.0.1:port",
    "http://127.0.0.1:99999",
    "http://127.0.0.1:-1",
    "http://127.0.0.1:",
    "http://127.0.0.1:\uff18\uff10",
    "http://[",
    "http://[::1",
    "http://[::1]x:1",
    "http://[v1.x]:1",
    "http://]",
    "http://a@HOST",
    "http:HOST",
    "://",
    "null",
    "",
    " ",
    "*",
    "\x7f",
    "\xff\xfe",
    "\u202e",
    "http://" + "x" * 5000,
    "http://127.0.0.1:" + "9" * 5000,
    "http://HOST, http://HOST",
    "javascript:alert(1)",
    "http://ⓗost",
    "http://a℀b",
)
HOSTS = (
    "HOST:",
    "HOST:x",
    "127.0.0.1:99999999999999999999",
    "[::1",
    "[",
    "]",
    "",
    ":",
    "a b",
    "x" * 5000,
    "\xff",
    "HOST.",
    "HOST\t",
    "HOST,HOST",
    "HOST/../",
    "127.0.0.1:\xb2",
)
COOKIES = (
    "=",
    ";",
    ";;;;",
    "a",
    "a=b=c",
    'a="',
    '$Version="1"',
    "forkline_session_PORT=",
    "forkline_session_PORT=\xff\xfe",
    "forkline_session_PORT=" + "x" * 5000,
    "forkline_session_PORT=%00",
    "forkline_csrf_PORT=x",
    "forkline_csrf_PORT=" + "é" * 32,
    "forkline_csrf_PORT=" + "a" * 64,
    "forkline_viewed_PORT=\u202e",
)
LENGTHS = ("-1", "+1", "1_0", "0x10", "1e3", " ", "", "9" * 5000, "²", "1, 2", "4194305", "0")
LANGUAGES = ("*", "xx", "en;q=x", "en;q=1e999", "en-" + "x" * 5000, "zz-\xff", ",,,,", "en;q=" + "9" * 500)
TYPES = (
    "multipart/form-data",
    "multipart/form-data; boundary=",
    "multipart/form-data; boundary=\xff",
    "multipart/form-data; boundary=" + "x" * 300,
    "application/x-www-form-urlencoded; charset=utf-16",
    "application/x-www-form-urlencoded; charset=nowhere",
    "application/json",
    "\xff",
    "",
)
HEADERS = {
    "Origin": ORIGINS,
    "Referer": ORIGINS,
    "HX-Current-URL": ORIGINS,
    "Host": HOSTS,
    "Cookie": COOKIES,
    "Content-Length": LENGTHS,
    "Content-Type": TYPES,
    "Accept-Language": LANGUAGES,
    "X-Forwarded-For": (
        "",
        ",",
        "x",
        "1.2.3.4, ",
        "\xff",
        "[::1",
        "1.2.3.4:x",
        "::ffff:1.2.3.4%eth0",
        "," * 5000,
    ),
    "X-Forwarded-Host": ("evil.example", "[", "\xff"),
    "X-Forwarded-Proto": ("https", "\xff"),
    "Sec-Fetch-Site": ("cross-site", "none", "same-origin", "x", "\xff", ""),
    "Sec-Fetch-Mode": ("navigate", "websocket", "\xff", ""),
    "Sec-Fetch-Dest": ("iframe", "\xff", ""),
    "Transfer-Encoding": ("chunked", "gzip", "chunked, chunked", "identity", "\xff", ""),
    "Expect": ("100-continue", "x"),
    "Connection": ("close", "upgrade", "keep-alive, Upgrade", "\xff", ""),
    "Upgrade": ("websocket", "h2c", "\xff", ""),
    "Sec-WebSocket-Version": ("12", "x", "9" * 5000, "\xff"),
    "Sec-WebSocket-Key": ("", "x", "=" * 24, "\xff"),
    "Sec-WebSocket-Protocol": ("\xff", ",", "x" * 5000, ""),
    "Sec-WebSocket-Extensions": ("permessage-deflate; x", ";", "\xff"),
    "If-Modified-Since": ("x", "Mon, 99 Foo 9999 99:99:99 GMT", "\xff"),
    "If-None-Match": ('"', "\xff", "*"),
    "Range": ("bytes=0-0", "bytes=9-1", "bytes=-", "bytes=" + "9" * 5000, "x", "\xff"),
    "User-Agent": ("", "\xff", "x" * 5000),
    "HX-Request": ("true", "\xff"),
    "HX-Target": ("detail", "\xff", "x" * 5000),
    "Accept": ("\xff", "*/*;q=x"),
    "Accept-Encoding": ("\xff", "gzip;q=x", "br"),
    "X-CSRFToken": ("\xff", "é" * 32, "x" * 5000),
    "X-HTTP-Method-Override": ("DELETE",),
}
# Requests that are malformed as a whole. Bytes above 127 are sent as they are.
WHOLE = (
    "GET / HTTP/9.9\r\nHost: HOST\r\n\r\n",
    "GET /\r\n\r\n",
    "GET http://HOST/login/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "GET http://evil.example/login/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "CONNECT HOST HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "BREW /login/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "get /login/ HTTP/1.1\r\nHost: HOST\r\n\r\n",
    "GET /login/ HTTP/1.1\r\n\r\n",
    "GET /login/ HTTP/1.0\r\n\r\n",
    "GET /login/ HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n",
    "GET /login/ HTTP/1.1\r\nHost : HOST\r\n\r\n",
    "GET /login/ HTTP/1.1\r\nHost: HOST\r\n folded: x\r\n\r\n",
    "GET /login/ HTTP/1.1\r\nHost: HOST\r\nX\r\n\r\n",
    "GET /login/ HTTP/1.1\r\nHost: HOST\r\n: x\r\n\r\n",
    "GET /login/ HTTP/1.1\r\nHost: HOST\r\nX: \x00\r\n\r\n",
    "POST /login/ HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST /login/ HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "POST /login/ HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "\x00" * 100 + "\r\n\r\n",
    "\r\n\r\n\r\n",
    "\x00" * 100 + "\r\n\r\n",
)
PATHS = (
    "/%",
    "/%ff",
    "/%00",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/static/%2e%2e/%2e%2e/manage.py",
    "/static/%ff",
    "/static/%00",
    "/static/" + "x" * 5000,
    "/static/\xff",
    "/shared/%ff/",
    "/shared/%00/",
    "/shared/%2f/",
    "/shared/" + "x" * 5000 + "/",
    "/runs/%d9%a1/",
    "/checkpoints/" + "9" * 5000 + "/",
    "/jobs/%ed%a0%80/",
    "//evil.example/",
    "/\\evil.example/",
    "/login/?next=%ff&next=%00",
    "/login/?next=http://[",
    "/login/link/?sesame=%ed%a0%80",
    "/login/link/?sesame=é",
    "/login/link/?next=http://[&sesame=x",
    "/?" + "&".join(f"a{number}=1" for number in range(3000)),
    "/jobs/?page=%ff",
    "/ws/shared/%ff/",
    "/ws/shared/%00/",
    "/ws/jobs/%ff/?after=%ff",
)


class Answer(NamedTuple):
    """What the server sent first: its status, 0 if it closed the connection, or -1 if it did nothing."""

    request: bytes
    status: int


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    with temporary_data_folder() as folder, served(folder) as port:
        cookie = session(port)
        found = list(requests(port, cookie))
        with ThreadPoolExecutor(CLIENTS) as clients:
            answers = list(clients.map(lambda request: answered(port, request), found))
        log = (folder / "log").read_bytes()
    statuses = Counter(answer.status for answer in answers)
    wrong = [answer for answer in answers if answer.status >= 500 or answer.status < 0]
    stray = [line for line in log.splitlines() if not LINE.match(line)]
    print_heading("requests", "answers", "errors or no answer", "lines of tracebacks in the log")
    shown = ", ".join(f"{count} with {status or 'a close'}" for status, count in sorted(statuses.items()))
    print_row(len(answers), shown, len(wrong), len(stray))
    for answer in wrong[:10]:
        sys.stdout.write(f"{answer.status}: {answer.request[:300]!r}\n")
    sys.stdout.write(b"\n".join(stray[:20]).decode(errors="replace") + "\n" if stray else "")
    return 1 if wrong or stray or len(answers) < 1000 else 0


def requests(port: int, cookie: str) -> Iterator[bytes]:
    """Return all requests, each by a stranger and by somebody who is logged in."""
    for login, (address, name) in product(("", cookie), product(ADDRESSES, HEADERS)):
        for value in HEADERS[name]:
            yield prepared(request_of(address, name, value, login), port)
    for login, path, kind in product(("", cookie), PATHS, ("GET", "HEAD", "POST", "SOCKET")):
        yield prepared(request_of(f"{kind} {path}", "X", "y", login), port)
    for whole in WHOLE:
        yield prepared(whole, port)


def request_of(address: str, name: str, value: str, cookie: str) -> str:
    """Return a request that is valid except for one header."""
    kind, path = address.split(" ", 1)
    headers = {"Host": "HOST", "Origin": "http://HOST"}
    if cookie:
        headers["Cookie"] = cookie
    if kind == "SOCKET":
        headers |= {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        headers["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    elif kind == "POST":
        headers |= {"Content-Length": "3", "Content-Type": "application/x-www-form-urlencoded"}
    if name in {"HX-Current-URL", "HX-Target", "Referer"}:
        headers["HX-Request"] = "true"
    headers[name] = value
    lines = "".join(f"{key}: {text}\r\n" for key, text in headers.items())
    body = "a=b" if kind == "POST" else ""
    return f"{'GET' if kind == 'SOCKET' else kind} {path} HTTP/1.1\r\n{lines}\r\n{body}"


def prepared(request: str, port: int) -> bytes:
    """Return the bytes to send, with the server's own host."""
    text = request.replace("HOST", f"127.0.0.1:{port}").replace("PORT", str(port))
    return text.encode("latin-1") if all(ord(one) < 256 for one in text) else text.encode()


def answered(port: int, request: bytes) -> Answer:
    """Send a request, and no more. Return the first answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS) as client:
        try:
            client.sendall(request)
            if b"\r\nTransfer-Encoding" in request:
                # Otherwise the server would wait for the rest.
                client.shutdown(socket.SHUT_WR)
            start = b""
            while len(start) < 12 and (more := client.recv(12 - len(start))):
                start += more
        except TimeoutError:
            return Answer(request, -1)
        except ConnectionError:
            return Answer(request, 0)
    return Answer(request, int(start[9:12]) if start[9:12].isdigit() else 0)


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """Serve the data folder. Yield the port. The log is in the folder."""
    port = free_port()
    with open(folder / "log", "wb") as log:
        command = [sys.executable, "-m", "checkpoint_site.server"]
        server = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PORT": str(port)}, stderr=log)
        try:
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
            yield port
        finally:
            server.terminate()
            server.wait()


def session(port: int) -> str:
    """Return the cookie of somebody who may run."""
    from django.conf import settings
    from django.test import Client

    from viewer.records.accounts import teammate

    client = Client()
    client.force_login(teammate("runner", "run"))
    return f"forkline_session_{port}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


if __name__ == "__main__":
    sys.exit(main())
