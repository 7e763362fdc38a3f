"""Sends hostile requests to the key proxy, and hostile answers through it.

Passes if a key reaches its address only, with the placeholder of its own job only, in the place where clients
put keys; if no answer, stored file or process shows a key; and if the proxy answers each honest request.
"""

import os
import random
import socket
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from quality.tables import print_heading, print_row
from quality.temporary_data_folder import temporary_data_folder
from tests.jobs.keys.upstream import Upstream, upstream

REQUESTS = 2_000
KEYS = ("sk-proj-first/real+key-0123456789", "sk-ant-second_real_key-9876543210")
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "CONNECT", "TRACE", "OPTIONS", "PRI", "GET GET", "", "\0")
TARGETS = (
    *("{base}/models", "http://{host}{base}/models", "http://evil.example{base}/models", "{base}", "{base}/"),
    *("{base}/../{other}/models", "{base}/%2e%2e/x", "{base}//evil.example/x", "{base}@evil.example/", "*"),
    *(
        "{base}/..;/x",
        "{base}\\..\\x",
        "{base}/%252e%252e/%2f",
        "{base}/x?y=http://evil.example",
        "{base}/x#y",
    ),
    *(
        "/{base}/models",
        "{base}/\u00e4",
        "{base}/x y",
        "evil.example:443",
        "//evil.example{base}",
        "{base}/echo",
    ),
    *(
        "{base}/stream",
        "{base}/redirect",
        "{base}/zipped",
        "{other}/models",
        "/",
        "{base}.evil/x",
        "{base}/%00",
    ),
    *("{base}/%0d%0aX-Evil:%201", "{upper}/models", "{base}/x?key={key}"),
)
HOSTS = (
    *(
        "{host}",
        "localhost:{port}",
        "evil.example",
        "{host}, evil.example",
        "{host}@evil.example",
        "",
        "[::1]:{port}",
    ),
    *("127.0.0.1", "{host}\r\nHost: evil.example", "{host}:80", "0x7f.1:{port}", "{upstream}"),
)
KEY_HEADERS = (
    *("Authorization: Bearer {key}", "authorization: bearer {key}", "X-Api-Key: {key}", "api-key: {key}"),
    *(
        "X-Goog-Api-Key: {key}",
        "Authorization: Basic {key}",
        "Authorization: {key}",
        "Authorization: Bearer  {key}",
    ),
    *(
        "Authorization: Bearer {key}\r\nAuthorization: Bearer {key}",
        "X-Api-Key: {key}, {key}",
        "Cookie: key={key}",
    ),
    *(
        "Authorization: Bearer\t{key}",
        "Authorization : Bearer {key}",
        "X-Api-Key: {key}\r\n folded",
        "X: {key}",
    ),
    *("X-Api-Key: {key}\0", "X-Api-Key:{key}\r\nConnection: X-Api-Key", "X-Api-Key: {key}\rX-Evil: 1", ""),
)
BODIES = (
    *("", "Content-Length: 5\r\n\r\nhello", "Content-Length: 0\r\n\r\n", "Content-Length: -1\r\n\r\n"),
    *(
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ),
    *(
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    ),
    *(
        "Transfer-Encoding: xchunked\r\n\r\nhello",
        "Transfer-Encoding: chunked\r\n\r\n5;x=\r\nhello\r\n0\r\nX-Api-Key: y\r\n\r\n",
    ),
    *(
        "Content-Length: 0x5\r\n\r\nhello",
        "Content-Length: 99999999999\r\n\r\n",
        "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
    ),
    "Content-Length: 42\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nHost: evil\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n2a\r\nGET /v1/smuggled HTTP/1.1\r\nHost: evil\r\n\r\n\r\n0\r\n\r\n",
    "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
)
KINDS = ("answered", "refused", "closed", "arrived")


@dataclass
class RunningJob:
    """A job with its key, and what its run knows."""

    key: str
    placeholder: str
    url: str


@contextmanager
def started_job(folder: Path, values: dict[str, str]) -> Iterator[dict[str, str]]:
    """Start a job with this environment file, whose keys all stay. Yield the variables that its run gets."""
    from django.conf import settings

    from viewer.host.jobs.files import JobStorage
    from viewer.host.jobs.kept_keys import keep_keys, keepable_keys
    from viewer.models import Project

    file = folder / f"{uuid.uuid4()}.env"
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    settings.CHECKPOINT_ROOTS = [folder]
    project = Project(folder=str(folder), interpreter=sys.executable, environment_file=str(file))
    project.kept_keys = {key.variable: key.address for key in keepable_keys(project)}
    storage = JobStorage(Path(settings.DATA_DIR) / "jobs" / str(uuid.uuid4()))
    storage.create()
    lock = storage.acquire_runner_lock()
    assert lock is not None
    try:
        yield keep_keys(storage, project, {})
    finally:
        os.close(lock)


@contextmanager
def running_job(folder: Path, key: str, address: str) -> Iterator[RunningJob]:
    """Start a job whose key may go to this address."""
    with started_job(folder, {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": address}) as given:
        yield RunningJob(key, given["OPENAI_API_KEY"], given["OPENAI_BASE_URL"])


def hostile_request(
    chance: random.Random, number: int, job: RunningJob, other: RunningJob, upstream_host: str
) -> bytes:
    """A request that combines what is honest with what is not, and has its number in a header."""
    parts = urlsplit(job.url)
    values: dict[str, object] = {
        "base": parts.path,
        "other": urlsplit(other.url).path,
        "upper": parts.path.upper(),
    }
    values |= {"host": parts.netloc, "port": parts.port, "upstream": upstream_host}
    values["key"] = chance.choice(
        (job.placeholder,) * 6 + (other.placeholder, job.key, other.key, "x", "\xff")
    )

    def one(of: tuple[str, ...], honest: int = 3) -> str:
        return (of[0] if chance.randrange(honest + 1) else chance.choice(of)).format(**values)

    body = chance.choice(BODIES)
    lines = [f"{one(METHODS)} {one(TARGETS)} HTTP/1.1", f"X-Number: {number}", "Connection: close"]
    lines += [f"Host: {one(HOSTS)}", one(KEY_HEADERS, 1), body if body else "\r\n"]
    request = "\r\n".join(line for line in lines if line).encode("latin-1", "replace")
    # Not within its number.
    at = chance.randrange(len(request))
    if chance.randrange(10) == 0 and not request.index(b"X-Number") - 2 <= at < request.index(
        b"Connection: close"
    ):
        request = request[:at] + bytes([chance.randrange(256)]) + request[at + chance.randrange(2) :]
    return request


def answer_to(request: bytes, port: int, seconds: float = 0.2) -> bytes:
    """What the proxy answers, at most 64 KiB, and until it pauses for so many ``seconds``."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request)
        connection.settimeout(seconds)
        try:
            while len(found) < 65536 and (part := connection.recv(65536)):
                found += part
        except (TimeoutError, ConnectionError):
            pass
    return found


def keys_in_answers(answers: dict[bytes, bytes], *jobs: RunningJob) -> Iterator[str]:
    """What is wrong with the answers, by their requests."""
    for request, answer in answers.items():
        for key in (job.key for job in jobs):
            # What the run itself has sent is no news to it.
            if key.encode() in answer and key.encode() not in request:
                yield f"an answer has a key: {request[:200]!r}"


def wrong_arrivals(
    requests: dict[str, bytes], job: RunningJob, other: RunningJob, server: Upstream
) -> Iterator[str]:
    """What is wrong with what has arrived at a job's address."""
    for line, headers, body in server.requests:
        values = {name.lower(): value for name, value in headers.items()}
        sent = requests.get(values.get("x-number", ""), b"")
        held = {name for name, value in values.items() if job.key in value}
        text = f"{line} {values} {body!r}"
        if "smuggled" in line or not line.split(" ")[1].startswith("/v1"):
            yield f"arrived: {line}"
        if job.placeholder.encode() not in sent:
            yield f"a key arrived without its placeholder: {line} {sent[:300]!r}"
        if other.key in text and other.key.encode() not in sent:
            yield f"another job's key arrived: {line} {sent[:300]!r}"
        if (
            held - {"authorization", "x-api-key", "api-key", "x-goog-api-key"}
            and job.key.encode() not in sent
        ):
            yield f"a key arrived in {held}: {sent[:300]!r}"
        if values.get("host") != f"127.0.0.1:{server.port}":
            yield f"arrived for {values.get('host')}"


def attacked(folder: Path, counts: Counter[str]) -> list[str]:
    """Attack the proxy. Return what was wrong."""
    from django.conf import settings

    chance, wrong, answers, requests = random.Random(1), list[str](), dict[bytes, bytes](), dict[str, bytes]()
    with upstream() as server, upstream() as elsewhere:
        server.elsewhere = f"{elsewhere.url}/v1/models"
        with (
            running_job(folder, KEYS[0], f"{server.url}/v1") as job,
            running_job(folder, KEYS[1], f"{elsewhere.url}/v1") as other,
        ):
            parts = urlsplit(job.url)
            lines = [f"GET {parts.path}/models HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
            for number in range(REQUESTS):
                request = hostile_request(chance, number, job, other, f"127.0.0.1:{server.port}")
                requests[str(number)] = request
                answers[request] = answer = answer_to(request, parts.port or 0)
                counts[
                    "answered" if answer.startswith(b"HTTP/1.1 2") else "refused" if answer else "closed"
                ] += 1
                if number % 100 == 0:
                    marks = [f"X-Number: honest{number}", f"X-Api-Key: {job.placeholder}", "", ""]
                    honest = "\r\n".join([*lines, *marks]).encode()
                    requests[f"honest{number}"] = honest
                    if not answer_to(honest, parts.port or 0, 60).startswith(b"HTTP/1.1 200"):
                        wrong.append(f"an honest request was not answered after {request[:300]!r}")
            wrong += [*keys_in_answers(answers, job, other), *wrong_arrivals(requests, job, other, server)]
            wrong += [*wrong_arrivals(requests, other, job, elsewhere)]
            stored = b"".join(
                path.read_bytes() for path in Path(settings.DATA_DIR).rglob("*") if path.is_file()
            )
            secrets = (*KEYS, job.placeholder, other.placeholder)
            wrong += ["a stored file has a secret" for one in secrets if one.encode() in stored]
    counts["arrived"] = len(server.requests)
    return wrong


def main() -> int:
    """Print what happened. Returns 1 if a check failed, else 0."""
    counts = Counter[str]()
    with temporary_data_folder(), tempfile.TemporaryDirectory() as folder:
        wrong = attacked(Path(folder), counts)
    print_heading("Key proxy", "requests", *KINDS, "wrong")
    print_row("hostile requests", REQUESTS, *(counts[kind] for kind in KINDS), len(wrong))
    print(*wrong[:20], sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
