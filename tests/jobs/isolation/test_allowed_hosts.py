"""A run in bubblewrap reaches the hosts that its project allows, and nothing else."""

import asyncio
import hashlib
import json
import os
import random
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from tests.jobs.conftest import MakeJob, followed
from tests.jobs.isolation.conftest import ended, isolate, listener, result_of
from tests.waiting import wait_until
from viewer.host.jobs.allowed_hosts import MAX_CONNECTIONS, Forwarder, endpoints, files
from viewer.models import Job, Project
from viewer.records.isolation import IsolationRefused, allowed_host, isolation_of

NAME = socket.gethostname()
NAMED = socket.gethostbyname(NAME)


class Server:
    """A server that answers with what it received, once the client has ended its side."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.create_server((address, port), family=family, backlog=500)
        self.address, self.port = address, int(self.listener.getsockname()[1])
        self.received: list[bytes] = []
        Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """End its thread as well, which waits for a connection."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _address = self.listener.accept()
            except OSError:
                return
            Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client:
            received = b"".join(iter(lambda: client.recv(4096), b""))
            self.received.append(received)
            client.sendall(f"{self.address} got ".encode() + received)


@contextmanager
def servers(*addresses: str) -> Iterator[list[Server]]:
    """Servers at these addresses of this machine."""
    with ExitStack() as opened:
        made = [Server(address) for address in addresses]
        for one in made:
            opened.callback(one.close)
        yield made


def fetched(make_job: MakeJob, project: Project, addresses: list[str], allow: list[str]) -> dict[str, str]:
    """What a run with these allowed hosts got from each address."""
    (Path(project.folder) / "addresses").write_text("\n".join(addresses))
    job = ended(make_job, project, "fetches.py", launcher="bubblewrap", network="hosts", allow=allow)
    assert job.status == "succeeded", (job.error, job.log_end)
    assert job.isolation["network"] == "hosts" and job.isolation["hosts"] == allow
    found: dict[str, str] = result_of(job)
    return found


def own_address() -> str:
    """An address of this machine that is not of its loopback device."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.connect(("192.0.2.1", 9))
        return str(opened.getsockname()[0])


def test_allowed_hosts_are_reached_and_no_others(make_job: MakeJob, project: Project) -> None:
    with servers("127.0.0.1", NAMED, "::1", "127.0.0.1", own_address()) as (one, two, six, closed, far):
        allow = [
            f"localhost:{one.port}",
            f"{NAME}:{two.port}",
            f"[::1]:{six.port}",
            f"{far.address}:{far.port}",
        ]
        refused = [
            f"localhost:{closed.port}",
            f"{NAME}:{one.port}",
            f"localhost:{two.port}",
            f"127.0.0.1:{closed.port}",
            f"[::1]:{closed.port}",
            f"{far.address}:{closed.port}",
            "192.0.2.1:80",
            "example.org:443",
        ]
        found = fetched(make_job, project, [*allow, *refused], allow)
    assert [found[one] for one in allow] == [
        "127.0.0.1 got hello",
        f"{NAMED} got hello",
        "::1 got hello",
        f"{far.address} got hello",
    ]
    assert {found[one] for one in refused} <= {"ConnectionRefusedError", "gaierror", "OSError"}, found
    assert closed.received == []


def test_no_attack_leaves_the_allowed_hosts(make_job: MakeJob, project: Project, tmp_path: Path) -> None:
    path = tmp_path / "project" / "socket"
    with (
        servers(NAMED, "127.0.0.1", own_address(), "::1") as (one, closed, far, six),
        listener(socket.AF_UNIX, str(path)),
        listener(socket.AF_UNIX, "\0forkline-test"),
    ):
        name_servers = re.findall(r"^nameserver\s+(\S+)", Path("/etc/resolv.conf").read_text(), re.MULTILINE)
        given: dict[str, object] = {
            **{kind: [] for kind in ("read", "write", "replace", "processes")},
            "addresses": [
                *(f"{server.address}:{server.port}" for server in (closed, far, six)),
                *(f"{address}:53" for address in name_servers),
                *(
                    "192.0.2.1:80",
                    "169.254.169.254:80",
                    "2001:db8::1:443",
                    "255.255.255.255:67",
                    "0.0.0.0:22",
                ),
                f"0.0.0.0:{closed.port}",
            ],
            "sockets": [str(path), "\0forkline-test"],
            "network": {
                "allowed": [[NAME, one.port]],
                "closed_ports": [closed.port, 443, 22],
                "names": ["example.org", "localhost.example", NAME + ".example"],
            },
        }
        (Path(project.folder) / "attack.json").write_text(json.dumps(given))
        allow = [f"{NAME}:{one.port}"]
        job = ended(make_job, project, "attacks.py", launcher="bubblewrap", network="hosts", allow=allow)
        assert job.status == "succeeded", (job.error, job.log_end)
        count, succeeded = result_of(job)
        assert count > 150 and succeeded == []
        assert [*closed.received, *far.received, *six.received] == []
        # With all of the network, some of the same attacks succeed.
        Job.objects.update(branch="ended")
        job = ended(make_job, project, "attacks.py", launcher="bubblewrap")
        opened = result_of(job)[1]
    assert {f"connect to {one.address}:{one.port}" for one in (closed, far)} <= set(opened)
    assert f"connect to {NAME}:{closed.port}" in opened
    # What was to lead elsewhere came to the allowed host, as it was.
    assert any(text.startswith(b"CONNECT ") for text in one.received)


def test_a_host_that_does_not_answer_is_noted_once(make_job: MakeJob, project: Project) -> None:
    with servers("127.0.0.1") as (gone,):
        port = gone.port
    allow = [f"localhost:{port}", "no-such-host.invalid:443"]
    (Path(project.folder) / "addresses").write_text("\n".join([*allow, *reversed(allow)]))
    job = ended(make_job, project, "fetches.py", launcher="bubblewrap", network="hosts", allow=allow)
    assert set(result_of(job).values()) <= {"ConnectionResetError", "BrokenPipeError"}
    for host in (f"localhost port {port}", "no-such-host.invalid port 443"):
        assert job.log_end.count(f"{host}, which its project allows, cannot be reached") == 1, job.log_end


def test_a_run_gets_no_other_proxy(make_job: MakeJob, project: Project, tmp_path: Path) -> None:
    file = tmp_path / "project.env"
    file.write_text("HTTPS_PROXY=http://proxy.example:3128\nno_proxy=x\nOTHER=kept\n")
    project.environment_file = str(file)
    project.save()
    job = ended(
        make_job,
        project,
        "shows_environment.py",
        launcher="bubblewrap",
        network="hosts",
        allow=["api.openai.com:443"],
    )
    assert job.status == "succeeded", (job.error, job.log_end)
    reported = json.loads((Path(project.folder) / "reported.json").read_text())["environment"]
    assert reported["OTHER"] == "kept"
    assert not [name for name in reported if name.lower() in ("https_proxy", "http_proxy", "no_proxy")]


def test_no_connection_outlives_its_run(make_job: MakeJob, project: Project) -> None:
    with servers("127.0.0.1") as (server,):
        (Path(project.folder) / "addresses").write_text(f"localhost:{server.port}")
        values = {"launcher": "bubblewrap", "network": "hosts", "allow": [f"localhost:{server.port}"]}
        job = ended(make_job, project, "holds_connections.py", **values, cpu_seconds=3)
        assert job.status == "failed" and job.error.code == "isolation.limit_reached"
        # Each was open until the run ended, and ends without an error of the server.
        wait_until(lambda: len(server.received) == 10)
        Job.objects.update(branch="ended")
        (Path(project.folder) / "connected").unlink()
        isolate(project, **values, wall_seconds=600)
        cancelled = make_job("holds_connections.py")
        with followed(cancelled):
            wait_until(lambda: (Path(project.folder) / "connected").exists())
            Job.objects.get(pk=cancelled.pk).request_cancel()
        wait_until(lambda: len(server.received) == 20)
    assert cancelled.status == "cancelled"


# The forwarder alone.


@contextmanager
def forwarded(destination: tuple[str, int], log: int = 2) -> Iterator[tuple[str, int]]:
    """An address of this machine from which connections are forwarded to a destination."""
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []

    async def run(listener: socket.socket) -> None:
        task = asyncio.create_task(Forwarder({listener: destination}, log).run())
        running.append((asyncio.get_running_loop(), task))
        with suppress(asyncio.CancelledError):
            await task

    with socket.create_server(("127.0.0.1", 0), backlog=500) as one:
        thread = Thread(target=lambda: asyncio.run(run(one)))
        thread.start()
        yield one.getsockname()
        loop, task = running[0]
        loop.call_soon_threadsafe(task.cancel)
        thread.join()


def test_bytes_of_both_directions_are_copied_unchanged() -> None:
    sent = random.Random(1).randbytes(20_000_000)
    with (
        servers("127.0.0.1") as (server,),
        forwarded(("127.0.0.1", server.port)) as address,
        socket.create_connection(address) as client,
    ):

        def send() -> None:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)

        sender = Thread(target=send)
        sender.start()
        received = b"".join(iter(lambda: client.recv(100_000), b""))
        sender.join()
    assert hashlib.sha256(received).digest() == hashlib.sha256(b"127.0.0.1 got " + sent).digest()


def test_a_reset_is_passed_on() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        forwarded(listening.getsockname()) as address,
        socket.create_connection(address) as client,
    ):
        accepted, _address = listening.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_run_that_holds_connections_gets_no_more(tmp_path: Path) -> None:
    log = os.open(tmp_path / "log", os.O_CREAT | os.O_WRONLY)
    with (
        servers("127.0.0.1") as (server,),
        forwarded(("127.0.0.1", server.port), log) as address,
        ExitStack() as opened,
    ):
        held = [opened.enter_context(socket.create_connection(address)) for _number in range(MAX_CONNECTIONS)]
        for _number in range(50):
            with socket.create_connection(address) as client, pytest.raises(ConnectionResetError):
                client.recv(1)
        for client in held:
            client.shutdown(socket.SHUT_WR)
        assert {client.recv(100) for client in held} == {b"127.0.0.1 got "}
        for client in held:
            client.close()
        # They are counted until both sides have ended.
        wait_until(lambda: _answers(address))
    assert (tmp_path / "log").read_text().count("connections at once") == 1


def _answers(address: tuple[str, int]) -> bool:
    with socket.create_connection(address) as client:
        client.shutdown(socket.SHUT_WR)
        try:
            return client.recv(100) == b"127.0.0.1 got "
        except ConnectionResetError:
            return False


# What may be allowed.


@pytest.mark.parametrize(
    ("text", "host"),
    {
        "api.openai.com": "api.openai.com:443",
        " API.OpenAI.com.:8443 ": "api.openai.com:8443",
        "localhost:11434": "localhost:11434",
        "my_db:5432": "my_db:5432",
        "bücher.example": "xn--bcher-kva.example:443",
        "10.1.2.3:80": "10.1.2.3:80",
        "[2001:DB8::5]": "[2001:db8::5]:443",
        "[::ffff:10.1.2.3]:80": "10.1.2.3:80",
    }.items(),
)
def test_hosts_are_stored_in_one_form(text: str, host: str) -> None:
    assert allowed_host(text) == host
    assert allowed_host(host) == host


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "a b", "a\nb", "a\tb", "a\0b", "a\u2028b", "a\u00a0b", "a.example\n127.0.0.1 b", "a#b"),
        *("*", "*.example", "user:word@a", "https://a", "a/b", "a?b", "a%41", "a..b", "-a", "a-", "a" * 64),
        *(
            "a:0",
            "a:65536",
            "a:-1",
            "a:+1",
            "a:1:2",
            "a:",
            "a:b",
            "a:\uff14\uff14\uff13",
            "straße.example",
            "\uff41\u3002example",
        ),
        *("127.1", "0x7f000001", "2130706433", "010.0.0.1", "1.2.3.4.5", "x.0x", "127.0.0.1."),
        *("0.0.0.0", "[::]", "224.0.0.1", "255.255.255.255", "[fe80::1]", "[fe80::1%eth0]", "[a]", "::1"),
        *(".".join(["a"] * 200), "a" * 100_000, "\ud800"),
    ],
)
def test_what_is_not_one_host_is_refused(text: str) -> None:
    with pytest.raises(IsolationRefused) as refused:
        allowed_host(text)
    assert refused.value.message.code == "isolation.invalid_host"


def test_rows_of_others_are_checked_again() -> None:
    base = {"launcher": "bubblewrap", "network": "hosts"}
    for data, code in (
        ({**base, "allow": ["a:443\n127.0.0.1 b:1"]}, "invalid_host"),
        ({**base, "allow": ["A:443"]}, "invalid_host"),
        ({**base, "allow": ["a"]}, "invalid_host"),
        ({**base, "allow": [f"a{number}:443" for number in range(101)]}, "too_many_hosts"),
        ({**base, "allow": []}, "no_hosts"),
        ({**base, "launcher": "landlock", "allow": ["a:443"]}, "hosts_need_bubblewrap"),
        ({"network": "hosts", "allow": ["a:443"]}, "hosts_need_bubblewrap"),
        ({"launcher": "bubblewrap", "allow": ["a:443"]}, "hosts_without_network"),
        ({**base, "allow": "a:443"}, "malformed"),
    ):
        with pytest.raises(IsolationRefused) as refused:
            isolation_of(data)
        assert refused.value.message.code == f"isolation.{code}", data


def test_names_get_addresses_that_no_other_host_has() -> None:
    hosts = [("b.example", 443), ("localhost", 1), ("127.64.0.1", 443), ("a", 443), ("b.example", 80)]
    found = endpoints(hosts)
    assert {destination: endpoint for endpoint, destination in found.items()} == {
        ("b.example", 443): ("127.64.0.2", 443),
        ("localhost", 1): ("127.0.0.1", 1),
        ("127.64.0.1", 443): ("127.64.0.1", 443),
        ("a", 443): ("127.64.0.3", 443),
        ("b.example", 80): ("127.64.0.2", 80),
    }
    lines = files(hosts)["/etc/hosts"].decode().splitlines()
    assert {"127.64.0.2 b.example", "127.64.0.3 a", "127.0.0.1 localhost"} <= set(lines)
    with pytest.raises(ValueError, match="not the name of a host"):
        files([("a\n127.0.0.1 b", 443)])


def test_the_name_of_this_machine_can_be_an_allowed_host() -> None:
    own = os.uname().nodename
    lines = files([(own.lower(), 443)])["/etc/hosts"].decode().lower().splitlines()
    assert [line for line in lines if line.endswith(f" {own.lower()}")] == [f"127.64.0.1 {own.lower()}"]
    assert f"127.0.0.1 {own.lower()}" in files([("other", 443)])["/etc/hosts"].decode().lower()
