"""The key proxy: puts the key of a project into the requests of its run, and sends them to the key's address.

A run knows ``http://127.0.0.1:PORT/JOB/VENDOR`` and a placeholder. The record of the job (``kept_keys``) says
where requests below that path go, so nothing that a request says changes that. Started as a program with the
folder of the records, the descriptor of its lock and that of its listening socket. It ends when no job is
left.
"""

import asyncio
import ctypes
import hashlib
import hmac
import json
import logging
import os
import re
import resource
import socket
import sys
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import h11
import httpx2
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from viewer.data_folder.locks import FileLock
from viewer.host.projects import key_address, read_values
from viewer.redaction.known_secrets import forms_of

# The limits of one request, and of the requests of one job at the same time.
MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_HEADER_BYTES = 64 * 1024
MAX_REQUESTS_AT_ONCE = 64
MAX_CONNECTIONS = 1024
# Seconds in which the run has to send a request without its body, the next part of a body, and all of it.
REQUEST_SECONDS, BODY_SECONDS, WHOLE_BODY_SECONDS = 60.0, 60.0, 900.0
# Without a byte of an answer being read.
UNREAD_SECONDS = 900.0
# A model may think for long before it answers.
TIMEOUTS = httpx2.Timeout(connect=15.0, read=900.0, write=60.0, pool=60.0)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
# Where clients put a key.
KEY_HEADERS = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key")
BEARER = re.compile(rb"(?i)bearer +")
# Of one connection, or set by the proxy itself.
NOT_FORWARDED = frozenset(
    [
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding"),
        *(b"upgrade", b"proxy-authenticate", b"proxy-authorization", b"host", b"content-length"),
        *(b"accept-encoding", b"expect"),
    ]
)
ROUTE = re.compile(rb"/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/([a-z0-9_]{1,64})(/.*)?", re.DOTALL)
PLAIN_PATH = re.compile(rb"[!-\[\]-~]*")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


class Refused(Exception):
    """A request that is not sent on. The run gets the status and the text, which have no key."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


# Removes a key from what the address answers.


class KeyForms:
    """The forms of the keys of a job. Keys of kilobytes are usual, so no beginning of one is stored."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.sorted = sorted({form.encode().lower() for key in keys for form in forms_of(key)})
        longest_first = sorted(self.sorted, key=len, reverse=True)
        self.pattern = re.compile(b"|".join(map(re.escape, longest_first)), re.IGNORECASE)
        # What may be the beginning of one.
        self.longest = len(longest_first[0]) - 1

    def is_beginning(self, data: bytes) -> bool:
        """Whether a form begins with these bytes, in lower case."""
        at = bisect_left(self.sorted, data)
        return at < len(self.sorted) and self.sorted[at].startswith(data)


class KeyFilter:
    """Replaces the keys in a stream by as many asterisks, in every form that redaction knows.

    The beginning of a key at the end of a part is held back until the next part shows whether it is one.
    """

    def __init__(self, forms: "KeyForms") -> None:
        self._forms = forms
        self._held = b""

    def whole(self, data: bytes) -> bytes:
        """The text without keys."""
        return self._forms.pattern.sub(lambda found: b"*" * len(found[0]), data)

    def part(self, data: bytes) -> bytes:
        """What can be sent of the stream so far."""
        clean = self.whole(self._held + data)
        end = clean[-self._forms.longest :].lower()
        held = next((len(end) - at for at in range(len(end)) if self._forms.is_beginning(end[at:])), 0)
        self._held = clean[len(clean) - held :]
        return clean[: len(clean) - held]

    def rest(self) -> bytes:
        """What was held back, at the end of the stream."""
        held, self._held = self._held, b""
        return held


# The jobs whose requests are sent on.


@dataclass(eq=False, slots=True)
class KnownJob:
    """A job with the keys of its project, read when its first request came."""

    record: Mapping[str, Any]
    keys: dict[str, str]
    forms: KeyForms
    client: httpx2.AsyncClient
    loopback_client: httpx2.AsyncClient
    active: int = 0

    @property
    def is_live(self) -> bool:
        """Whether its runner, or a process that it started, is alive. False if it has closed its own lock."""
        with suppress(PermissionError):
            return FileLock(Path(self.record["lock"])).is_held()
        return False


def known_job(file: Path) -> KnownJob:
    """Read the record of a job, and its keys. Raises Refused."""
    try:
        record = json.loads(file.read_bytes())
    except (OSError, ValueError):
        raise Refused(401, "This job has ended, or is not known.") from None
    environment_file = record["environment_file"]
    try:
        before = Path(environment_file).stat()
        values = read_values(environment_file)
        after = Path(environment_file).stat()
    except (OSError, ValueError):
        raise Refused(502, "The environment file of the project cannot be read.") from None
    if not record["identity"] == [before.st_dev, before.st_ino] == [after.st_dev, after.st_ino]:
        # The run may have put a link to another project's file there.
        raise Refused(401, "The environment file of the project was replaced after the job started.")
    addresses = {name: route["address"] for route in record["routes"].values() for name in route["keys"]}
    keys = {name: values[name] for name in addresses if values.get(name)}
    if any(_address(name, values) != addresses[name] for name in keys):
        # The file was edited since the job started, and its key may be another one.
        raise Refused(401, "The environment file of the project has another address for the key.")
    if not keys:
        raise Refused(401, "The environment file of the project no longer has the key.")
    return KnownJob(record, keys, KeyForms(keys.values()), _client(trust_env=True), _client(trust_env=False))


def _address(variable: str, values: Mapping[str, str]) -> str:
    """The only address to which the environment file lets a key go; empty without one."""
    with suppress(ValueError):
        return key_address(variable, values)
    return ""


def _client(*, trust_env: bool) -> httpx2.AsyncClient:
    """A client without cookies, which would be shared by the requests of a job, and without redirects."""
    return httpx2.AsyncClient(
        trust_env=trust_env,
        follow_redirects=False,
        cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        limits=httpx2.Limits(max_connections=MAX_REQUESTS_AT_ONCE, max_keepalive_connections=8),
    )


# One request.


@dataclass(eq=False)
class Body:
    """The body of a request, as it arrives."""

    receive: Receive
    size: int = 0
    is_read: asyncio.Event = field(default_factory=asyncio.Event)

    async def parts(self) -> AsyncIterator[bytes]:
        """The parts of the body. Raises Refused if it is too large, arrives too slowly or not whole."""
        while True:
            try:
                message = await asyncio.wait_for(self.receive(), BODY_SECONDS)
            except TimeoutError:
                raise Refused(408, "The body of the request did not arrive in time.") from None
            if message["type"] != "http.request":
                raise Refused(499, "The client has disconnected.")
            self.size += len(message.get("body", b""))
            if self.size > MAX_BODY_BYTES:
                raise Refused(413, f"The body has more than {MAX_BODY_BYTES} bytes.")
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body"):
                self.is_read.set()
                return

    async def left(self) -> None:
        """Return when the client has disconnected, after its body was read."""
        await self.is_read.wait()
        while (await self.receive())["type"] != "http.disconnect":
            pass


def target_of(path: bytes, query: bytes) -> tuple[str, str, bytes]:
    """The job, the vendor, and what follows of the path and the query. Raises Refused."""
    found = ROUTE.fullmatch(path)
    if not found:
        raise Refused(404, "The address has no job.")
    rest = found[3] or b""
    if not PLAIN_PATH.fullmatch(rest) or not PLAIN_PATH.fullmatch(query):
        raise Refused(400, "The path has characters that are not allowed.")
    if b".." in re.split(rb"[/\\;]", _decoded(rest)):
        raise Refused(400, 'The path must not contain "..".')
    return found[1].decode(), found[2].decode(), rest + (b"?" + query if query else b"")


def _decoded(path: bytes) -> bytes:
    """The path as a server reads it that decodes it several times."""
    for _ in range(4):
        path = unquote_to_bytes(path)
    return path


def headers_with_key(headers: Headers, route: Mapping[str, Any], keys: Mapping[str, str]) -> Headers:
    """The headers to send, with the key in the place of its placeholder. Raises Refused."""
    listed = {
        name.strip().lower() for key, value in headers if key == b"connection" for name in value.split(b",")
    }
    sent, has_key = Headers(), False
    for name, value in headers:
        if name in KEY_HEADERS:
            before = (BEARER.match(value) or [b""])[0] if name == b"authorization" else b""
            if (key := _key_of(value[len(before) :].strip(), route, keys)) is not None:
                sent.append((name, before + key.encode()))
                has_key = True
                continue
        if name not in NOT_FORWARDED and name not in listed:
            sent.append((name, value))
    names = [name for name, _value in sent if name in KEY_HEADERS]
    if len(names) != len(set(names)):
        raise Refused(400, "The request has two keys.")
    if not has_key:
        raise Refused(401, "The request has no placeholder of this job for this address.")
    # Other encodings would hide a key in the answer.
    return [*sent, (b"accept-encoding", b"identity")]


def _key_of(value: bytes, route: Mapping[str, Any], keys: Mapping[str, str]) -> str | None:
    """The key whose placeholder this is; None for another value."""
    digest, found = hashlib.sha256(value).hexdigest(), None
    for variable, known in route["keys"].items():
        if hmac.compare_digest(digest, known):
            found = keys.get(variable)
    return found


class KeyProxy:
    """The ASGI application."""

    def __init__(self, folder: Path, host: str) -> None:
        self.folder, self.hosts = folder, {host.encode(), host.replace("127.0.0.1", "localhost").encode()}
        self.jobs: dict[str, KnownJob] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_started = False

        async def noting(message: MutableMapping[str, Any]) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self.answer(scope, Body(receive), noting)
        except Refused as refused:
            if not has_started:
                await _send_error(send, refused)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError, KeyError) as error:
            # Its text may quote a header. After the start, the response ends without its end.
            if not has_started:
                failed = f"The address of the key did not answer ({type(error).__name__})."
                await _send_error(send, Refused(502, failed))

    async def answer(self, scope: Scope, body: Body, send: Send) -> None:
        """Send one request on, and its answer back. Raises Refused, httpx2.HTTPError."""
        headers: Headers = list(scope["headers"])
        if [value for name, value in headers if name == b"host"] not in [[host] for host in self.hosts]:
            raise Refused(421, "The request is for another host.")
        if scope["method"] not in METHODS:
            raise Refused(405, "This method is not allowed.")
        name, vendor, rest = target_of(scope["raw_path"], scope["query_string"])
        job = self.job(name)
        route = job.record["routes"].get(vendor)
        if route is None:
            raise Refused(401, "This job has no key for this address.")
        sent = headers_with_key(headers, route, job.keys)
        if job.active >= MAX_REQUESTS_AT_ONCE:
            raise Refused(429, f"The job has {MAX_REQUESTS_AT_ONCE} requests at once.")
        job.active += 1
        try:
            await _unless_left(
                body, self._forward(job, scope["method"], route["address"], rest, headers, sent, body, send)
            )
        finally:
            job.active -= 1

    def job(self, name: str) -> KnownJob:
        """The job of this name. Raises Refused if it has ended."""
        found = self.jobs.get(name) or known_job(self.folder / f"{name}.json")
        if not found.is_live:
            raise Refused(401, "This job has ended, or is not known.")
        return self.jobs.setdefault(name, found)

    async def _forward(
        self,
        job: KnownJob,
        method: str,
        address: str,
        rest: bytes,
        received: Headers,
        sent: Headers,
        body: Body,
        send: Send,
    ) -> None:
        base = httpx2.URL(address)
        url = base.copy_with(raw_path=base.raw_path.rstrip(b"/") + rest or b"/")
        if (url.scheme, url.host, url.port) != (base.scheme, base.host, base.port):
            raise Refused(400, "The path leads elsewhere.")
        request = httpx2.Request(
            method,
            url,
            headers=[*sent, *_framing(received)],
            content=body.parts() if _has_body(received) else None,
            extensions={"timeout": TIMEOUTS.as_dict()},
        )
        if not _has_body(received):
            async for _part in body.parts():
                pass
        clients = {"https": job.client, "http": job.loopback_client}
        response = await clients[url.scheme].send(request, stream=True)
        try:
            keys = KeyFilter(job.forms)
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise Refused(
                    502, "The address of the key sent a compressed answer, although it was asked not to."
                )
            start = {"type": "http.response.start", "status": response.status_code}
            await send({**start, "headers": _answered(response.headers.raw, keys)})
            async for part in response.aiter_raw():
                if clean := keys.part(part):
                    await send({"type": "http.response.body", "body": clean, "more_body": True})
            await send({"type": "http.response.body", "body": keys.rest()})
        finally:
            await response.aclose()

    async def end_jobs(self) -> None:
        """Forget the jobs that have ended, with their keys and records."""
        for file in self.folder.glob("*.json"):
            with suppress(OSError, ValueError, KeyError):
                if not FileLock(Path(json.loads(file.read_bytes())["lock"])).is_held():
                    file.unlink()
        for name, job in list(self.jobs.items()):
            if not job.is_live and not job.active:
                del self.jobs[name]
                await job.client.aclose()
                await job.loopback_client.aclose()


async def _unless_left(body: Body, forwarding: Any) -> None:
    """Wait for a request, and end it if the client disconnects: its answer would cost money."""
    forward, left = asyncio.ensure_future(forwarding), asyncio.ensure_future(body.left())
    try:
        await asyncio.wait((forward, left), return_when=asyncio.FIRST_COMPLETED)
        if not forward.done():
            forward.cancel()
            raise Refused(499, "The client has disconnected.")
        forward.result()
    finally:
        for task in (forward, left):
            task.cancel()
        await asyncio.gather(forward, left, return_exceptions=True)


def _has_body(headers: Headers) -> bool:
    framing = dict(headers)
    return b"transfer-encoding" in framing or framing.get(b"content-length", b"0") != b"0"


def _framing(headers: Headers) -> Headers:
    """The header that says how long the body is. Raises Refused."""
    lengths = [value for name, value in headers if name == b"content-length"]
    if lengths and any(name == b"transfer-encoding" for name, _value in headers):
        raise Refused(400, "The request has two lengths.")
    if len(lengths) > 1 or not all(length.isdigit() for length in lengths):
        raise Refused(400, "The length of the request is not valid.")
    if lengths and int(lengths[0]) > MAX_BODY_BYTES:
        raise Refused(413, f"The body has more than {MAX_BODY_BYTES} bytes.")
    return [(b"content-length", length) for length in lengths]


def _answered(headers: Iterable[tuple[bytes, bytes]], keys: KeyFilter) -> Headers:
    """The headers of the answer, without keys and without those of one connection."""
    given = [(name.lower(), value) for name, value in headers]
    listed = {
        name.strip().lower() for key, value in given if key == b"connection" for name in value.split(b",")
    }
    dropped = (NOT_FORWARDED - {b"content-length"}) | listed
    return [(name, keys.whole(value)) for name, value in given if name not in dropped]


async def _send_error(send: Send, refused: Refused) -> None:
    """Send an error as both vendors' clients read it."""
    error = {"type": "forkline_key_proxy", "message": f"Forkline's key proxy: {refused.text}"}
    body = json.dumps({"type": "error", "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


# The connections. uvicorn limits only the time between two requests.


class Connection(H11Protocol):
    """A connection that ends if its client makes the proxy wait, or if others need its place."""

    awaited: object = None
    since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the oldest idle connection, so that clients that send nothing lock no other run out."""
        super().connection_made(transport)
        self.since = time.monotonic()
        others: Iterable[Any] = self.connections
        waiting = [one for one in others if one.waits_for() and not one.transport.is_closing()]
        if len(self.connections) > MAX_CONNECTIONS * 3 // 4 and waiting:
            min(waiting, key=lambda one: one.since).transport.abort()

    def waits_for(self) -> tuple[object, float] | None:
        """What has to come of the client, and in how many seconds; None if the client waits."""
        if unread := self.transport.get_write_buffer_size():
            return ("unread", unread), UNREAD_SECONDS
        state = self.conn.their_state
        is_answered = self.cycle is not None and self.cycle.response_complete
        if state is h11.IDLE or (state is h11.SEND_BODY and is_answered):
            return (state, self.cycle), REQUEST_SECONDS
        return ((state, self.cycle), WHOLE_BODY_SECONDS) if state is h11.SEND_BODY else None

    def check(self, now: float) -> None:
        """End the connection if it has waited too long for the same. Called repeatedly."""
        wait = self.waits_for()
        if wait is None or wait[0] != self.awaited:
            self.awaited, self.since = wait and wait[0], now
        elif now - self.since >= wait[1]:
            self.transport.abort()


# The process.

CHECK_SECONDS = 1.0
IDLE_SECONDS = 10.0
SECONDS_BETWEEN_STARTS = 1.0
# A connection and one to the address for each request, and the files of the process.
MAX_OPEN_FILES = 3 * MAX_CONNECTIONS
PR_SET_DUMPABLE = 4


def main(folder: Path, lock: int, listener: int) -> None:
    """Serve until no job is left, in a child that is started again if it is killed.

    Requests wait meanwhile, because the parent listens at the same socket. The lock is released when both
    have exited.
    """
    if sys.platform == "linux":
        # Otherwise a run of the same user could read the keys in this process's memory.
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        if re.search(r"^TracerPid:\t[^0]", Path("/proc/self/status").read_text(), re.MULTILINE):
            sys.exit("Another process traces the key proxy.")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(MAX_OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    # A run may have opened the memory of this process before. A child's memory is another one.
    while child := os.fork():
        _pid, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) >= 0:
            os._exit(0)
        time.sleep(SECONDS_BETWEEN_STARTS)
    os.set_inheritable(lock, False)
    logging.disable(logging.CRITICAL)
    asyncio.run(serve(folder, socket.socket(fileno=listener)))


async def serve(folder: Path, listener: socket.socket) -> None:
    """Serve on this socket until no job is left for ``IDLE_SECONDS``."""
    proxy = KeyProxy(folder, f"127.0.0.1:{listener.getsockname()[1]}")
    server = uvicorn.Server(
        uvicorn.Config(
            proxy,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=5,
        )
    )
    watching = [asyncio.ensure_future(one) for one in (_end_when_idle(proxy, server), _end_slow(server))]
    await server.serve(sockets=[listener])
    for task in watching:
        task.cancel()


async def _end_slow(server: uvicorn.Server) -> None:
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        now, connections = time.monotonic(), list[Any](server.server_state.connections)
        for connection in connections:
            connection.check(now)


async def _end_when_idle(proxy: KeyProxy, server: uvicorn.Server) -> None:
    used_at = time.monotonic()
    while not server.should_exit:
        await asyncio.sleep(CHECK_SECONDS)
        await proxy.end_jobs()
        if any(proxy.folder.glob("*.json")):
            used_at = time.monotonic()
        if time.monotonic() - used_at < IDLE_SECONDS:
            continue
        if not proxy.folder.exists():
            server.should_exit = True
            return
        # Held until this process has exited, so whoever stores a record then starts another proxy.
        starting = FileLock(proxy.folder / "start.lock").acquire()
        if starting is not None and not any(proxy.folder.glob("*.json")):
            server.should_exit = True
        elif starting is not None:
            os.close(starting)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
