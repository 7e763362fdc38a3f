"""Measures how soon sockets of three web processes with one PostgreSQL receive an event.

``SOCKETS`` lists their numbers. Twenty jobs write 1,000 events a second in total.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from quality.benchmarks.many_pages import cookie_of, queued_jobs, report, watch, workers
from quality.cluster.database import used_server
from quality.served import served
from quality.tables import print_heading
from quality.temporary_data_folder import ROOT
from scripts.served_demo import free_port

SOCKETS = os.environ.get("SOCKETS", "60,200,600,2000")
WEBS, JOBS, EVENTS, PAUSE_SECONDS = 3, 20, 1000, 0.02


def main() -> None:
    counts = ("jobs", "pages", "events a second", "p50 ms", "p95 ms", "missed", "duplicates", "cut off")
    print_heading(*counts, "servers' seconds", "workers' seconds", "pages' seconds", "memory")
    for sockets in SOCKETS.split(","):
        # A process reads Django's settings only once.
        code = f"from quality.benchmarks.several_web_servers import measure; measure({int(sockets)})"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def measure(sockets: int) -> None:
    """Print one row of the table."""
    os.environ["SECRET_KEY"] = secrets.token_hex()
    pages = max(1, round(sockets / (WEBS * JOBS)))
    with used_server(), served() as dashboard:
        # As behind a proxy: browsers see one origin, and a session of one web server is one of all.
        os.environ["ALLOWED_ORIGINS"] = dashboard.site
        cookie, queued = cookie_of(dashboard.link), queued_jobs(JOBS, EVENTS, PAUSE_SECONDS)
        with web_servers(WEBS - 1) as sites, workers(JOBS):
            watched = watch(queued, pages, [dashboard.site, *sites], cookie)
        report(queued, WEBS * pages, watched)


@contextmanager
def web_servers(count: int) -> Iterator[Sequence[str]]:
    """Run more web servers, each with its data folder. Yield their addresses."""
    with ExitStack() as open_things:
        yield [open_things.enter_context(web_server(number)) for number in range(count)]


@contextmanager
def web_server(number: int) -> Iterator[str]:
    port, folder = str(free_port()), f"{os.environ['DATA_DIR']}/web-{number}"
    program = [sys.executable, "manage.py", "web"]
    environment = {**os.environ, "PORT": port, "DATA_DIR": folder}
    with subprocess.Popen(program, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout and "Serving on" in server.stdout.readline()
            wait_until_it_serves(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def wait_until_it_serves(port: str) -> None:
    command = [sys.executable, "manage.py", "web", "--check"]
    environment = {**os.environ, "PORT": port}
    while subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode:
        pass


if __name__ == "__main__":
    main()
