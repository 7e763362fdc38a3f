"""The proxy sends a key to its address only, and to nobody else."""

import os
import signal
import socket
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.jobs.keys.conftest import KEY, OTHER_KEY, KeyJob, StartKeyJob, kill_proxy, proxy_process
from tests.jobs.keys.upstream import Upstream
from tests.waiting import wait_until
from viewer.data_folder.locks import FileLock
from viewer.host.jobs.kept_keys import ROOT, ensure_proxy, folder, record_file, restart_proxy
from viewer.host.jobs.key_proxy import KeyFilter, KeyForms
from viewer.host.projects import checked_address


def raw(job: KeyJob, request: str, *more: bytes) -> bytes:
    """What the proxy answers to these bytes. PATH, HOST and KEY are those of the job."""
    path = "/" + job.url.split("/", 3)[3]
    text = request.replace("PATH", path).replace("HOST", f"127.0.0.1:{job.port}")
    text = text.replace("X-Api-Key: KEY", f"Connection: close\r\nX-Api-Key: {job.placeholder}")
    with socket.create_connection(("127.0.0.1", job.port), timeout=60) as connection:
        connection.sendall(text.encode("latin-1"))
        for part in more:
            connection.sendall(part)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


def test_a_request_gets_the_key_in_the_place_of_its_placeholder(start: StartKeyJob, server: Upstream) -> None:
    job = start()
    assert job.send("/models?limit=2").json() == {"ok": True}
    for name in ("x-api-key", "api-key", "x-goog-api-key"):
        assert job.send(headers={name: job.placeholder}).status_code == 200
    assert server.keys == [KEY] * 4
    assert server.requests[0][0] == "GET /v1/models?limit=2 HTTP/1.1"
    assert server.requests[0][1]["Host"] == f"127.0.0.1:{server.port}"
    assert job.placeholder not in str(server.requests) and job.placeholder.startswith("sk-proj-forkline-")


def test_bodies_are_sent_on_whole(start: StartKeyJob, server: Upstream) -> None:
    job, body = start(), os.urandom(3_000_000)
    assert job.send(method="POST", content=body).status_code == 200
    assert job.send(method="POST", content=iter([body[:1000], body[1000:]])).status_code == 200
    assert [sent for *_request, sent in server.requests] == [body, body]


def test_an_answer_that_repeats_the_key_is_redacted(start: StartKeyJob, server: Upstream) -> None:
    job = start()
    for path in ("/echo", "/stream"):
        answer = job.send(path)
        assert KEY not in answer.text and "****" in answer.text
    assert answer.text == f"data: {'*' * len(KEY)}\n\n" * (len(KEY) - 1)
    assert KEY not in str(job.send("/echo").headers) and server.keys == [KEY] * 3


def test_a_stream_arrives_while_it_is_written(start: StartKeyJob, server: Upstream) -> None:
    job = start()
    with (
        httpx2.Client(trust_env=False, timeout=60) as client,
        client.stream("GET", f"{job.url}/endless", headers={"X-Api-Key": job.placeholder}) as answer,
    ):
        assert next(answer.iter_bytes()).startswith(b"data: 1")
    # The upstream would go on, and cost money.
    assert server.was_left.wait(60)


def test_a_redirect_is_the_clients(start: StartKeyJob, server: Upstream, elsewhere: Upstream) -> None:
    job = start()
    server.elsewhere = f"{elsewhere.url}/v1/models"
    assert job.send("/redirect").status_code == 307
    job.send("/redirect", headers={"X-Api-Key": job.placeholder}, follow_redirects=True)
    assert server.keys == [KEY, KEY] and elsewhere.keys == [job.placeholder]


def test_cookies_are_neither_kept_nor_shared(start: StartKeyJob, server: Upstream) -> None:
    job = start()
    job.send()
    job.send()
    assert "Cookie" not in server.requests[1][1]


def test_other_placeholders_are_refused(start: StartKeyJob, server: Upstream) -> None:
    job, other = start(), start(OTHER_KEY)
    for key in ("x", KEY, other.placeholder, f"{job.placeholder} {other.placeholder}", job.placeholder[:-1]):
        assert job.send(headers={"Authorization": f"Bearer {key}"}).status_code == 401
    assert job.send(headers={}).status_code == 401
    unknown = job.url.replace(job.storage.name, "00000000-0000-0000-0000-000000000000")
    headers = {"Authorization": f"Bearer {job.placeholder}"}
    with httpx2.Client(trust_env=False) as client:
        for url in (unknown, job.url.replace("/openai", "/anthropic"), other.url):
            assert client.get(f"{url}/models", headers=headers).status_code == 401
    assert server.requests == []
    other.end()
    wait_until(lambda: other.send().status_code == 401)
    assert job.send().status_code == 200


# A request line, and what follows it.
SENT = "Host: HOST\r\nX-Api-Key: KEY\r\n"
ATTACKS = {
    "another host in the target": ("GET http://evil.example/v1/models HTTP/1.1", SENT),
    "an absolute target": ("GET http://HOSTPATH/models HTTP/1.1", SENT),
    "another host": ("GET PATH/models HTTP/1.1", SENT.replace("HOST", "evil.example")),
    "two hosts": ("GET PATH/models HTTP/1.1", f"{SENT}Host: evil.example\r\n"),
    "no host": ("GET PATH/models HTTP/1.0", "X-Api-Key: KEY\r\n"),
    "a tunnel": ("CONNECT evil.example:443 HTTP/1.1", SENT),
    "a trace": ("TRACE PATH/models HTTP/1.1", SENT),
    "user and host": ("GET PATH@evil.example/ HTTP/1.1", SENT),
    "upwards": ("GET PATH/../../evil HTTP/1.1", SENT),
    "upwards, encoded": ("GET PATH/%2e%2e/x HTTP/1.1", SENT),
    "upwards, encoded twice": ("GET PATH/a%252f%252e%252e%252fx HTTP/1.1", SENT),
    "upwards, with a backslash": ("GET PATH/..%5cx HTTP/1.1", SENT),
    "two keys": ("GET PATH/models HTTP/1.1", f"{SENT}X-Api-Key: KEY\r\n"),
    "two lengths": ("POST PATH/x HTTP/1.1", f"{SENT}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"),
    "unequal lengths": ("POST PATH/x HTTP/1.1", f"{SENT}Content-Length: 4\r\nContent-Length: 5\r\n"),
    "a signed length": ("POST PATH/x HTTP/1.1", f"{SENT}Content-Length: +4\r\n"),
    "a folded header": ("GET PATH/x HTTP/1.1", f"X-A: b\r\n c\x00: d\r\n{SENT}"),
    "a broken header": ("GET PATH/x HTTP/1.1", f"X-A\r: b\r\n{SENT}"),
    "an unknown encoding": ("POST PATH/x HTTP/1.1", f"{SENT}Transfer-Encoding: gzip\r\n"),
    "long headers": ("GET PATH/x HTTP/1.1", f"X-A: {'b' * 100_000}\r\n{SENT}"),
    "a large body": ("POST PATH/x HTTP/1.1", f"{SENT}Content-Length: 99999999999\r\n"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_requests_reach_no_address(start: StartKeyJob, server: Upstream, attack: str) -> None:
    job = start()
    line, headers = ATTACKS[attack]
    answer = raw(job, f"{line}\r\n{headers}\r\n")
    assert answer.startswith(b"HTTP/1.1 4") or not answer
    assert server.requests == [] and KEY.encode() not in answer
    assert job.send().status_code == 200


def test_no_second_request_is_smuggled_in_a_body(start: StartKeyJob, server: Upstream) -> None:
    job = start()
    inner = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    raw(
        job,
        f"POST PATH/x HTTP/1.1\r\nHost: HOST\r\nX-Api-Key: KEY\r\nContent-Length: {len(inner)}\r\n\r\n",
        inner,
    )
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner)
    raw(
        job,
        "POST PATH/x HTTP/1.1\r\nHost: HOST\r\nX-Api-Key: KEY\r\nTransfer-Encoding: chunked\r\n\r\n",
        chunked,
    )
    assert [(line, body) for line, _headers, body in server.requests] == [("POST /v1/x HTTP/1.1", inner)] * 2


def test_headers_of_one_connection_are_not_sent_on(start: StartKeyJob, server: Upstream) -> None:
    headers = {"Connection": "close, X-Secret-Hop", "X-Secret-Hop": "1", "Upgrade": "h2c", "X-Api-Key": ""}
    job = start()
    job.send(headers={**headers, "X-Api-Key": job.placeholder})
    sent = {name.lower() for name in server.requests[0][1]}
    assert (
        not sent & {"x-secret-hop", "upgrade", "te"}
        and server.requests[0][1]["accept-encoding"] == "identity"
    )


def test_a_compressed_answer_is_refused(start: StartKeyJob) -> None:
    assert start().send("/zipped").status_code == 502


def test_a_body_that_is_too_large_ends_the_request(start: StartKeyJob, server: Upstream) -> None:
    job = start()
    parts = (b"x" * 1024 * 1024 for _ in range(80))
    # The proxy may close the connection while the body is sent.
    with suppress(httpx2.TransportError):
        assert job.send(method="POST", content=parts).status_code == 413
    assert all(len(body) <= 64 * 1024 * 1024 for *_request, body in server.requests)
    assert job.send().status_code == 200


def test_an_address_without_a_trusted_certificate_gets_no_key(start: StartKeyJob, server: Upstream) -> None:
    # It speaks no TLS at all.
    job = start(address=f"https://127.0.0.1:{server.port}/v1")
    answer = job.send()
    assert answer.status_code == 502 and KEY not in answer.text and server.requests == []


def test_a_replaced_environment_file_gives_no_key(
    start: StartKeyJob, server: Upstream, tmp_path: Path
) -> None:
    start(OTHER_KEY)
    job = start()
    (tmp_path / "1.env").unlink()
    (tmp_path / "1.env").symlink_to(tmp_path / "0.env")
    assert job.send().status_code == 401 and server.requests == []


def test_a_key_goes_nowhere_else_after_its_file_was_edited(
    start: StartKeyJob, server: Upstream, elsewhere: Upstream, tmp_path: Path
) -> None:
    job = start()
    # The same file, with the key of another address. The job has made no request yet.
    text = (tmp_path / "0.env").read_text()
    (tmp_path / "0.env").write_text(text.replace(server.url, elsewhere.url).replace(KEY, OTHER_KEY))
    assert job.send().status_code == 401
    assert server.requests == elsewhere.requests == []


def test_a_placeholder_has_nothing_of_its_key(start: StartKeyJob) -> None:
    placeholder = start("sk-correct-horse-battery-staple-0").placeholder
    assert placeholder.startswith("sk-forkline-") and "horse" not in placeholder


def test_long_keys_need_little_memory() -> None:
    key = os.urandom(2048).hex()
    tracemalloc.start()
    try:
        forms = KeyForms([key])
        filters = [KeyFilter(forms) for _ in range(8)]
        first, last = f"x{key[:-1]}".encode(), f"{key[-1]}!".encode()
        sent = [one.part(first) + one.part(last) for one in filters]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sent == [b"x" + b"*" * len(key) + b"!"] * 8 and peak < 8 * 1024 * 1024


def test_addresses_to_which_no_key_goes() -> None:
    assert checked_address("https://api.openai.com/v1/") == "https://api.openai.com/v1"
    for good in (
        "http://127.0.0.1:8000",
        "http://localhost/v1",
        "http://[::1]:80/v1",
        "https://a.example:8443",
    ):
        assert checked_address(good) == good
    for bad in (
        *(
            "",
            "api.openai.com",
            "http://api.openai.com",
            "ftp://127.0.0.1",
            "https://",
            "https://a:b@c.example",
        ),
        *(
            "https://a.example/?x=1",
            "https://a.example/#x",
            "https://a.example/../x",
            "https://a.example:99999",
        ),
        *(
            "https://a.example/%2e%2e/x",
            "https://a.example\\x",
            "https://a.example/\n",
            "http://127.0.0.1.evil.example",
        ),
        *(
            "http://0x7f.1",
            "http://2130706433",
            "https://@a.example",
            "javascript:alert(1)",
            "https://a.example:0",
        ),
    ):
        with pytest.raises(ValueError):
            checked_address(bad)


def test_a_killed_proxy_starts_again_at_the_same_address(start: StartKeyJob, server: Upstream) -> None:
    job = start()
    assert job.send().status_code == 200
    for _time in range(2):
        killed = proxy_process()
        assert killed
        killed.send_signal(signal.SIGKILL)
        # Nobody has to ask for it. Requests wait until it is back.
        assert job.send().status_code == 200
    server.requests.clear()
    kill_proxy()
    with pytest.raises(httpx2.ConnectError):
        job.send()

    def is_back() -> bool:
        restart_proxy(job.storage.name)
        return proxy_process() is not None

    wait_until(is_back)
    assert job.send().status_code == 200 and server.keys == [KEY]
    # Whoever asks for it now gets the same one.
    assert ensure_proxy() == job.port


def test_a_proxy_that_cannot_start_does_not_end_the_following_of_a_run(start: StartKeyJob) -> None:
    job = start()
    kill_proxy()
    (folder() / "log").unlink()
    (folder() / "start.lock").unlink()
    (folder() / "start.lock").mkdir()
    restart_proxy(job.storage.name)
    (folder() / "start.lock").rmdir()
    # As a full disk leaves it.
    (folder() / "port").write_text("")
    assert ensure_proxy() == int((folder() / "port").read_text())


def proxy_of_the_test(job: KeyJob, *program: str) -> "subprocess.Popen[bytes]":
    """A proxy that this program starts, instead of the job's."""
    kill_proxy()
    lock = FileLock(folder() / "proxy.lock").acquire()
    assert lock is not None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        job.variables["OPENAI_BASE_URL"] = job.url.replace(str(job.port), str(listener.getsockname()[1]))
        arguments = [str(folder()), str(lock), str(listener.fileno())]
        started = subprocess.Popen(
            [*program, sys.executable, "-m", "viewer.host.jobs.key_proxy", *arguments],
            cwd=ROOT,
            pass_fds=(lock, listener.fileno()),
        )
    os.close(lock)
    return started


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_memory_that_was_opened_before_the_proxy_served_has_no_key(
    start: StartKeyJob, server: Upstream
) -> None:
    job = start()
    started = proxy_of_the_test(job)
    with (
        open(f"/proc/{started.pid}/mem", "rb", buffering=0) as memory,
        open(f"/proc/{started.pid}/maps") as maps,
    ):
        assert job.send().status_code == 200 and server.keys == [KEY]
        found = b""
        for line in maps:
            first, last = (int(end, 16) for end in line.split(" ")[0].split("-"))
            if " rw" in line:
                memory.seek(first)
                with suppress(OSError):
                    found += memory.read(last - first)
    assert KEY.encode() not in found
    kill_proxy()
    started.wait(timeout=60)


def test_the_proxy_ends_after_the_last_job(start: StartKeyJob) -> None:
    job = start()
    assert job.send().status_code == 200
    process = proxy_process()
    assert process
    job.end()
    wait_until(lambda: not record_file(job.storage.name).exists())
    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, seconds=30)


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_no_process_of_the_same_user_reads_its_memory(start: StartKeyJob) -> None:
    job = start()
    # Root may read every process. Without its capabilities, it is a user like others.
    as_user = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    started = proxy_of_the_test(job, *as_user)
    assert job.send().status_code == 200
    other = subprocess.Popen([*as_user, "sleep", "60"])
    serving = proxy_process()
    assert serving and serving.pid != started.pid

    def error(process: int, name: str) -> str:
        command = [*as_user, "dd", "bs=1", "count=0", f"if=/proc/{process}/{name}"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr

    for name in ("environ", "mem", "maps"):
        assert "Permission denied" not in error(other.pid, name)
        assert "Permission denied" in error(started.pid, name)
        assert "Permission denied" in error(serving.pid, name)
    other.kill()
    other.wait()
    kill_proxy()
    started.wait(timeout=60)


def test_nothing_that_it_stores_or_shows_has_a_key(start: StartKeyJob, tmp_path: Path) -> None:
    job = start()
    job.send("/echo")
    job.send(headers={"Authorization": b"Bearer x\xff"})
    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    shown = subprocess.run(["ps", "axeww"], capture_output=True, check=True).stdout
    for secret in (KEY, job.placeholder):
        assert secret.encode() not in stored and secret.encode() not in shown
