"""All commands in the files of ``deploy`` start with their variables, and their health checks answer.

They run as processes. Where the system allows mount namespaces, all but their own folders is read-only.
"""

import http.client
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from scripts.served_demo import free_port
from tests.deploy.files import DEPLOY, GIVEN, ROOT, Service, of_compose, of_kubernetes, of_systemd
from tests.environments import environment_with
from tests.langgraph.postgresql.server import OWNER, Server
from tests.waiting import wait_until

FORKLINE = [sys.executable, "-c", "from checkpoint_site.command import main; main()"]
# Makes everything but the folders before ``--`` read-only for the command after it.
READ_ONLY = """
while [ "$1" != -- ]; do mount --bind "$1" "$1"; shift; done; shift
mount -o remount,bind,ro / && exec "$@"
"""
NAMESPACE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
START_SECONDS = 240


def may_mount() -> bool:
    """Whether this account may create a mount namespace. Some systems forbid it."""
    program = [*NAMESPACE, "true"]
    return bool(shutil.which("unshare")) and subprocess.run(program, capture_output=True).returncode == 0


class Started:
    """A process of a service, which may write only to its data folder and to what is in /tmp."""

    def __init__(self, service: Service, server: Server, database: str, folder: Path) -> None:
        self.service, self.folder = service, folder / service.name
        self.server, self.database = server, database
        for name in ("data", "projects", "tmp"):
            (self.folder / name).mkdir(parents=True)
        self.port = free_port()
        changed = {
            "DATABASE_URL": server.connection(database, OWNER),
            "DATA_DIR": str(self.folder / "data"),
            "CHECKPOINT_ROOTS": str(self.folder / "projects"),
            "TMPDIR": str(self.folder / "tmp"),
            "PORT": str(self.port),
            "LISTEN_ADDRESS": "127.0.0.1",
        }
        # Each variable that is set here is one that the files set, too.
        assert {"DATABASE_URL", "DATA_DIR"} <= service.variables.keys()
        self.environment = environment_with(None, **service.variables | changed | {"PYTHONPATH": str(ROOT)})
        command = [*FORKLINE, *service.command]
        if may_mount():
            writable = [str(self.folder / name) for name in ("data", "projects", "tmp")]
            command = [*NAMESPACE, "sh", "-c", READ_ONLY, "sh", *writable, "--", *command]
        self.process = subprocess.Popen(command, cwd=ROOT, env=self.environment)

    def is_up(self) -> bool:
        """Whether it answers, or has registered. Its own check costs a second of a processor each time."""
        assert self.process.poll() is None, self.service.name
        if self.service.command[0] == "web":
            return self.health({"Host": urlsplit(self.service.variables["ALLOWED_ORIGINS"]).netloc})[0] == 200
        with suppress(psycopg.Error), self.server.connected(self.database) as connection:
            query = "SELECT count(*) FROM viewer_host WHERE is_up AND name = %s"
            return connection.execute(query, [self.service.command[2]]).fetchone() == (1,)
        return False

    def checked(self) -> tuple[int, str]:
        """The exit status of the check that its file has, and what it prints to stderr."""
        if isinstance(check := self.service.check, dict):
            return 0 if self.health(check) == (200, "ok\n") else 1, ""
        command = [*FORKLINE, *check[1:]]
        ended = subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True)
        return ended.returncode, ended.stderr

    def health(self, headers: dict[str, str]) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/healthz", headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def started(services: list[Service], server: Server, folder: Path) -> Iterator[list[Started]]:
    """Start all of them at once, as after a power failure, with an empty database."""
    database = folder.name.replace("-", "_").lower()
    with server.connected("postgres") as connection:
        connection.execute(f"CREATE DATABASE {database}")
    with ExitStack() as ends:
        found = []
        for service in services:
            one = Started(service, server, database, folder)
            ends.callback(one.end)
            found.append(one)
        for one in found:
            wait_until(one.is_up, START_SECONDS)
            assert one.checked() == (0, ""), one.service.name
        yield found


@pytest.mark.parametrize("services", [of_kubernetes, of_systemd], ids=["Kubernetes", "systemd"])
def test_all_services_start_and_are_healthy(
    services: Callable[[], list[Service]], server: Server, tmp_path: Path
) -> None:
    with started(services(), server, tmp_path) as found:
        web, *_others, worker = found
        assert (web.service.command, worker.service.command[:2]) == (["web"], ["worker", "--host"])
        web.process.terminate()
        worker.process.kill()
        assert web.process.wait(60) == 0
        worker.process.wait()
        for one in (web, worker):
            one.service = replace(one.service, check=["forkline", one.service.command[0], "--check"])
            status, said = one.checked()
            # One line, for people who look at the state of a container.
            assert (status, len(said.splitlines())) == (1, 1), said
            assert GIVEN not in said and "dbname" not in said


def test_pages_of_all_web_servers_are_behind_the_proxy_of_compose(server: Server, tmp_path: Path) -> None:
    with ExitStack() as ends:
        port = free_port()
        site = f"localhost:{port}"
        variables = {"ALLOWED_HOSTS": "localhost", "ALLOWED_ORIGINS": f"https://{site}"}
        services = [replace(one, variables={**one.variables, **variables}) for one in of_compose()]
        found = ends.enter_context(started(services, server, tmp_path))
        webs = [one for one in found if one.service.command == ["web"]]
        assert len(webs) == 2 and len(found) == 4
        proxy = start_proxy(tmp_path, port, [one.port for one in webs])
        ends.callback(proxy.kill)
        wait_until(lambda: asked(site, "/healthz")[0] == 200, START_SECONDS)
        status, headers, _body = asked(site, "/")
        assert status == 302 and headers["Location"] == "/login/?next=/"
        assert headers["Strict-Transport-Security"].startswith("max-age=")
        # Another name leads to no web server.
        assert asked(site, "/healthz", Host="elsewhere.example.org")[2] == ""
        webs[0].process.kill()
        webs[0].process.wait()
        assert {asked(site, "/healthz")[0] for _request in range(6)} == {200}


def start_proxy(folder: Path, port: int, webs: list[int]) -> "subprocess.Popen[bytes]":
    """Start Caddy with the file of Compose, on other ports, with no certificate of this machine."""
    options = f"""{{
	admin off
	auto_https disable_redirects
	skip_install_trust
	http_port {free_port()}
	https_port {port}
	storage file_system {folder}/caddy
"""
    text = (DEPLOY / "Caddyfile").read_text()
    own = "{\n\thttp_port 8080\n\thttps_port 8443\n"
    assert own in text
    file = folder / "Caddyfile"
    file.write_text(text.replace(own, options))
    environment = {
        **os.environ,
        "FORKLINE_SITE": f"localhost:{port}",
        "FORKLINE_WEB": " ".join(f"127.0.0.1:{one}" for one in webs),
    }
    program = shutil.which("caddy")
    assert program, "caddy is not there: run `scripts/system-packages proxy`"
    with (folder / "caddy.log").open("w") as log:
        command = [program, "run", "--config", str(file), "--adapter", "caddyfile"]
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def asked(site: str, address: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Return the status, the headers and the body of a page over TLS; 0 while nothing answers."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(site, timeout=60, context=context)
    try:
        connection.request("GET", address, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read().decode()
    except OSError:
        return 0, {}, ""
    finally:
        connection.close()
