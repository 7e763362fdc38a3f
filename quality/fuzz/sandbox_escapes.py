"""Attacks from within sandboxes, by a run and by a grandchild that has left it.

Each project is laid out in another way: other projects beside and within it, links that lead out, stores in
its folder. Some may reach allowed hosts, of several kinds. Passes if nothing of the user's is read, changed,
signalled or connected to, if what reaches an allowed host is what the run sent there, if a run that grows is
ended at its limit, and if no process is left.
"""

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import psutil

from quality.tables import print_heading, print_row
from quality.temporary_data_folder import temporary_data_folder

LAYOUTS, MAX_SECONDS = 60, 60.0
RUNNERS = Path(__file__).resolve().parents[2] / "tests/jobs/fake_runners"
LAUNCHERS = ("landlock", "bubblewrap")
GROWTH = {"memory": "memory_mb", "seconds": "cpu_seconds", "processes": "processes", "wall": "wall_seconds"}
LIMITS = {"memory_mb": 150, "cpu_seconds": 1, "processes": 40, "wall_seconds": 1}
SECRET = "KEY=sk-of-another-project"


def tried(folder: Path, seeds: Sequence[int]) -> tuple[Counter[str], list[str]]:
    """Attack from a project for each seed. Return the counts, and what succeeded. Needs Django."""
    counts: Counter[str] = Counter()
    faults: list[str] = []
    for seed in seeds:
        for launcher in LAUNCHERS:
            own = folder / f"{seed}-{launcher}"
            own.mkdir()
            _attacked(own, random.Random(seed), launcher, counts, faults)
    return counts, faults


def _attacked(
    folder: Path, chance: random.Random, launcher: str, counts: Counter[str], faults: list[str]
) -> None:
    from django.conf import settings

    from viewer.host_requests import JobRefused
    from viewer.models import Project
    from viewer.records.isolation import change_isolation, isolation_of

    folders = _layout(folder, chance)
    networks = ["none", "all", *(["hosts"] if launcher == "bubblewrap" else [])]
    network = chance.choice(networks)
    own = Project.objects.create(
        folder=str(folders[0]),
        interpreter=sys.executable,
        isolation={"launcher": launcher, "network": network},
    )
    others = [
        Project.objects.create(
            folder=str(one), interpreter=sys.executable, environment_file=str(one / ".env")
        )
        for one in folders[1:]
    ]
    victims = [Path(settings.DATA_DIR) / f"victim-{folder.name}", *(one / ".env" for one in folders[1:])]
    for path in victims:
        path.write_text(SECRET)
    with ExitStack() as opened:
        server = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        unix = opened.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(folder / "socket"))
        unix.listen()
        process = opened.enter_context(
            subprocess.Popen(["sleep", "100"], env={"KEY": SECRET, "PATH": os.defpath})
        )
        address = f"127.0.0.1:{server.getsockname()[1]}"
        given: dict[str, Any] = {
            "read": [str(path) for path in victims],
            "write": [str(one) for one in folders[1:]] + ["/etc", "/usr/lib", str(Path.home())],
            "replace": [str(path) for path in victims],
            "processes": [process.pid, os.getpid(), 1],
            "addresses": [] if network == "all" else [address, "192.0.2.1:80", "[::1]:22", "2001:db8::1:443"],
            "sockets": [str(folder / "socket")],
        }
        received = _allow_hosts(own, opened, chance, given, server.getsockname()[1])
        change_isolation(own, isolation_of(own.isolation))
        (folders[0] / "attack.json").write_text(json.dumps(given))
        try:
            count, succeeded = json.loads(_ended(own, "attacks.py", chance)["result"])
        except JobRefused as refused:
            counts["refused to start"] += 1
            expected = {"isolation.cannot_close", "isolation.environment_file_leads_out"}
            faults += [] if refused.message.code in expected else [f"{folder.name}: {refused}"]
            count, succeeded = 0, []
        counts[f"with the network {network}"] += count
        server.setblocking(False)
        with suppress(BlockingIOError):
            server.accept()
            faults += [] if network == "all" else [f"{folder.name}: a connection came to what is closed"]
        if network == "hosts" and count and not any(one[:7] == b"CONNECT" for one in received):
            faults.append(f"{folder.name}: the allowed host was not reached")
        is_alive = process.poll() is None
        process.kill()
    # In processes of its own, another one has these numbers.
    succeeded = [one for one in succeeded if launcher == "landlock" or "signal to" not in one]
    succeeded = [one for one in succeeded if not (launcher == "bubblewrap" and one.endswith(" 1"))]
    changed = [str(path) for path in victims if not path.exists() or path.read_text() != SECRET]
    left = [str(path) for one in folders[1:] for path in one.glob("left*")]
    faults += [f"{folder.name}: {one}" for one in (*succeeded, *changed, *left)]
    faults += [] if is_alive else [f"{folder.name}: a process was killed"]
    counts["attacks"] += count
    counts["runs"] += 1
    for one in others:
        one.delete()


def _allow_hosts(
    project: Any, opened: ExitStack, chance: random.Random, given: dict[str, Any], closed_port: int
) -> list[bytes]:
    """Allow a server and further hosts, if the project's network is so. Return what comes to the server."""
    received: list[bytes] = []
    if project.isolation["network"] != "hosts":
        return received
    allowed = opened.enter_context(socket.create_server(("", 0)))
    Thread(target=_serve, args=(allowed, received), daemon=True).start()
    port = allowed.getsockname()[1]
    host = chance.choice(["localhost", "127.0.0.1", socket.gethostname()])
    project.change_isolation({**project.isolation, "allow": [f"{host}:{port}", *_hosts(chance)]})
    given["network"] = {
        "allowed": [[host, port]],
        "closed_ports": [closed_port, 22, 443],
        "names": ["example.org", "metadata.google.internal", f"{host}.example"],
    }
    return received


def _hosts(chance: random.Random) -> list[str]:
    """Further allowed hosts, which do not lead to what is closed."""
    kinds = [
        "no-such-host.invalid",
        "xn--bcher-kva.example",
        "my_db",
        "192.0.2.9",
        "[2001:db8::9]",
        "127.64.0.1",
    ]
    return [f"{host}:{chance.randint(1, 65535)}" for host in chance.sample(kinds, chance.randint(0, 6))]


def _serve(listener: socket.socket, received: list[bytes]) -> None:
    """Note what each connection sends, until the socket is closed."""
    with suppress(OSError):
        while True:
            client, _address = listener.accept()
            with client:
                client.settimeout(5)
                received.append(client.recv(4096))


def _layout(folder: Path, chance: random.Random) -> list[Path]:
    """A project's folder and those of others: beside it, around it, or within it. Links lead to them."""
    own = folder / chance.choice(["app", "apps/app", "a b", "ä", "app.d/app"])
    names = ["other", "app2", "apps/other"]
    others = [folder / chance.choice(names)]
    if chance.random() < 0.2:
        others.append(own / "inner")
    for one in (own, *others):
        one.mkdir(parents=True, exist_ok=True)
    for number, other in enumerate(others):
        (own / f"out-{number}").symlink_to(other)
        (own / f"up-{number}").symlink_to(other / ".." / ".")
    return [own, *others]


def _ended(project: Any, child: str, chance: random.Random) -> dict[str, Any]:
    """Run a tiny program in the project's sandbox. Return how it ended. Raises JobRefused."""
    from django.conf import settings

    from viewer.host.jobs.files import JobStorage
    from viewer.host.jobs.spool import read_events
    from viewer.host.jobs.starting import start_runner

    settings.JOB_RUNNERS = {"crewai": RUNNERS / child, "langgraph": RUNNERS / child}
    name = str(UUID(int=chance.getrandbits(128)))
    storage = JobStorage(Path(settings.DATA_DIR) / "jobs" / name)
    storage.create()
    storage.write_request({"job": name, "kind": "run"})
    runner, _in_force = start_runner(storage, project)
    end = time.monotonic() + MAX_SECONDS
    while runner.poll() is None:
        if time.monotonic() > end:
            os.killpg(runner.pid, 9)
            return {"status": "hung", "result": '[0, ["the run hung"]]'}
        time.sleep(0.01)
    events = read_events(storage.path, 0)[0]
    log = storage.read_log_end(1000)[0].decode(errors="replace")
    return events[-1]["data"] if events else {"status": "none", "result": json.dumps([0, [log]])}


def grown(folder: Path) -> tuple[int, list[str]]:
    """Let runs grow in each launcher. Return how many, and what went wrong. Needs Django."""
    from viewer.models import Project
    from viewer.records.isolation import change_isolation, isolation_of

    faults = []
    for launcher in ("process", *LAUNCHERS):
        for what, limit in GROWTH.items():
            own = folder / f"{launcher}-{what}"
            own.mkdir()
            (own / "grow").write_text(what)
            project = Project.objects.create(folder=str(own), interpreter=sys.executable)
            change_isolation(project, isolation_of({"launcher": launcher, limit: LIMITS[limit]}))
            started = time.monotonic()
            ended = _ended(project, "grows.py", random.Random(f"{launcher}{what}"))
            error = ended.get("error")
            reached = error["values"]["limit"] if isinstance(error, dict) else str(ended)
            if reached != limit or time.monotonic() - started > MAX_SECONDS:
                faults.append(f"{own.name}: {reached}")
            faults += [f"{own.name}: process {one} is left" for one in _working_in(own)]
    return len(GROWTH) * (1 + len(LAUNCHERS)), faults


def _working_in(folder: Path) -> list[int]:
    """The processes whose working directory is this folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def main() -> int:
    """Attack from all layouts, and print the counts. Return 1 if something succeeded."""
    with temporary_data_folder() as folder:
        (folder / "attacks").mkdir()
        counts, faults = tried(folder / "attacks", range(LAYOUTS))
        (folder / "growth").mkdir()
        grew, more = grown(folder / "growth")
        print_heading("sandboxes", "count")
        for name, count in (*counts.items(), ("runs that grew", grew)):
            print_row(name, f"{count:,}")
        for fault in (*faults, *more):
            print(fault)
        return 1 if faults or more else 0


if __name__ == "__main__":
    sys.exit(main())
