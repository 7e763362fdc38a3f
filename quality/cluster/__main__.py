"""Runs forks on five hosts for three web processes with one PostgreSQL, and kills any of them at random.

Hosts and web processes have folders of their own. Passes if each fork started at most once, and exactly
once if it succeeded, if all of them were requested and have ended after the last kill, and if no process is
left. Meanwhile, the network of one host is cut for ``CUT`` seconds. Each runner leaves a mark when it starts,
so starts are counted by what really ran.
"""

import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any

import psutil
import psycopg

from quality.cluster.database import Server
from quality.tables import print_heading, print_row
from tests.hosts.failing_servers import Cut

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / "tests/recorded_stores/1.15.30/json"
FORKS, KILLS = int(os.environ.get("FORKS", "1000")), int(os.environ.get("KILLS", "100"))
CUT_SECONDS = int(os.environ.get("CUT", "300"))
HOSTS, WEBS = 5, 3
# The host whose network is cut.
CUT_OFF, CUT_AFTER = "host-0", 10
# Out of ten kills. The others wait until a worker or the database is up again.
TARGETS = ("runner",) * 4 + ("worker",) * 3 + ("web",) * 2 + ("PostgreSQL",)
PAUSE_SECONDS, RECOVERY_SECONDS = (0.5, 3.0), 120
# Added by a host once its worker runs: a copy of a real store, in a project of its own.
ADD = """
import django, sys; django.setup()
from django.utils import timezone
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.models import Project
project = Project.objects.create(
    folder=sys.argv[1], interpreter=sys.executable, confirmed_at=timezone.now()
)
location = open_location(sys.argv[1] + "/checkpoints")
location.project = project
location.save()
import_location(location)
"""
COUNT = "SELECT idempotency_key::text, id::text, status, ended_at IS NOT NULL FROM viewer_job"


@dataclass
class Process:
    """A process that is started again after it was killed."""

    command: list[str]
    environment: dict[str, str]
    output: Path
    running: "subprocess.Popen[bytes]" = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        with self.output.open("ab") as output, self.output.with_suffix(".log").open("ab") as log:
            self.running = subprocess.Popen(
                self.command, cwd=ROOT, env=self.environment, stdout=output, stderr=log
            )

    def kill(self) -> None:
        self.running.kill()
        self.running.wait()


@dataclass
class Cluster:
    """The processes, and how many of which kind were killed."""

    folder: Path
    server: Server
    hosts: list[Process] = field(default_factory=list)
    webs: list[Process] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    cut: Cut = field(init=False)

    def __post_init__(self) -> None:
        self.cut = Cut(self.server.port)

    def environment(self, name: str) -> dict[str, str]:
        """The environment of a host or web process, whose only allowed folder is its own."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        own = {
            "DJANGO_SETTINGS_MODULE": "tests.jobs.worker_settings",
            "FAKE_RUNNER": "pauses.py",
            "DATA_DIR": str(folder / "data"),
            "CHECKPOINT_ROOTS": str(folder / "project"),
            "DATABASE_URL": self.server.address_at(self.cut.port) if name == CUT_OFF else self.server.address,
            "SECRET_KEY": "shared by all web processes of this cluster, on this machine",
        }
        return {**os.environ, **own}

    def start(self) -> None:
        for number in range(HOSTS):
            name = f"host-{number}"
            environment = self.environment(name)
            command = [sys.executable, "manage.py", "worker", "--host", name, "--jobs", "3"]
            self.hosts.append(Process(command, environment, self.folder / f"{name}.out"))
            project = self.folder / name / "project"
            shutil.copytree(STORE, project / "checkpoints")
            while not (self.folder / name / "data" / "host_id").exists():
                time.sleep(0.1)
            subprocess.run([sys.executable, "-c", ADD, project], cwd=ROOT, env=environment, check=True)
        for number in range(WEBS):
            name = f"web-{number}"
            command = [sys.executable, "-m", "quality.cluster.web", *map(str, (number, WEBS, FORKS))]
            self.webs.append(Process(command, self.environment(name), self.folder / f"{name}.out"))

    def kill_one(self, target: str) -> None:
        """Kill one process of this kind, and start it again."""
        if target == "runner":
            # It may exit at this moment, and there may be none: then another process is killed next.
            with suppress(psutil.Error, IndexError):
                random.choice(self.runners()).kill()
                self.kills[target] += 1
            return
        if target == "PostgreSQL":
            self.server.kill()
            self.server.start()
        else:
            process = random.choice(self.hosts if target == "worker" else self.webs)
            process.kill()
            process.start()
        self.kills[target] += 1

    def restart_ended(self) -> None:
        """Start the workers that have ended, as systemd does: one that cannot reach the database ends."""
        for host in self.hosts:
            if host.running.poll() is not None:
                host.start()

    def runners(self) -> list[psutil.Process]:
        """Return the processes of forks, found by the folder of their jobs."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.status() != psutil.STATUS_ZOMBIE and any(
                    str(self.folder) in part and "/jobs/" in part for part in process.cmdline()
                ):
                    found.append(process)
        return found

    def jobs(self) -> list[tuple[str, str, str, bool]]:
        """Return the key, id and status of each job, and whether it has ended."""
        with psycopg.connect(self.server.address) as connection:
            return connection.execute(COUNT).fetchall()

    def end(self) -> None:
        for process in [*self.webs, *self.hosts]:
            process.kill()
        self.cut.close()
        for runner in self.runners():
            with suppress(psutil.Error):
                runner.kill()
        self.server.stop()


def main() -> int:
    """Print a table. Return 1 if a check failed, else 0."""
    # So that nothing is left of it.
    signal.signal(signal.SIGTERM, lambda *_received: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="forkline-cluster-"))
    folder.chmod(0o755)
    (folder / "pg").mkdir()
    cluster = Cluster(folder, Server(folder / "pg"))
    try:
        cluster.start()
        for seconds, change in ((CUT_AFTER, cluster.cut.close), (CUT_AFTER + CUT_SECONDS, cluster.cut.open)):
            timer = Timer(seconds, change)
            timer.daemon = True
            timer.start()
        opens_at = time.monotonic() + CUT_AFTER + CUT_SECONDS
        while cluster.kills.total() < KILLS:
            time.sleep(random.uniform(*PAUSE_SECONDS))
            cluster.restart_ended()
            cluster.kill_one(random.choice(TARGETS))
        wait_until_done(cluster, opens_at)
        return 0 if shown(cluster) else 1
    finally:
        cluster.end()
        shutil.rmtree(folder, ignore_errors=True)


def wait_until_done(cluster: Cluster, opens_at: float) -> None:
    """Wait until all forks were requested and have ended, or until nothing has happened for too long.

    A host may be cut off until ``opens_at``, on the monotonic clock.
    """
    before, changed_at = list[Any](), time.monotonic()
    while time.monotonic() < max(opens_at, changed_at) + RECOVERY_SECONDS:
        cluster.restart_ended()
        jobs = sorted(cluster.jobs())
        has_requested = all(web.running.poll() is not None for web in cluster.webs)
        if jobs and has_requested and all(has_ended for *_ids, has_ended in jobs):
            return
        if jobs != before:
            before, changed_at = jobs, time.monotonic()
        time.sleep(1)


def shown(cluster: Cluster) -> bool:
    """Print the results. Return whether they are as they must be."""
    # A runner may still be exiting after its last event.
    time.sleep(2)
    jobs = cluster.jobs()
    marks = [mark.read_text().split() for mark in cluster.folder.glob("host-*/project/marks")]
    starts = Counter(job for of_host in marks for job in of_host)
    ends = Counter(status for _key, _id, status, _has_ended in jobs)
    twice = sum(count > 1 for count in starts.values())
    missing = FORKS - len({key for key, *_rest in jobs})
    unended = sum(not has_ended for *_ids, has_ended in jobs)
    unstarted = sum(status == "succeeded" and starts[pk] == 0 for _key, pk, status, _ended in jobs)
    left = len(cluster.runners())
    outputs = (web.output.read_text().split() for web in cluster.webs)
    seconds = sorted(float(text) for texts in outputs for text in texts)
    kills = ", ".join(f"{count} {target}" for target, count in sorted(cluster.kills.items()))
    median = f"{1000 * statistics.median(seconds):.0f} ms" if seconds else "-"
    others = ends.total() - ends["succeeded"] - ends["interrupted"]
    print_heading("forks", "kills", "succeeded", "interrupted", "otherwise", "read, median")
    print_row(FORKS, kills, ends["succeeded"], ends["interrupted"], others, median)
    print_heading(
        "started twice", "not requested", "not ended", "succeeded without a start", "processes left"
    )
    print_row(twice, missing, unended, unstarted, left)
    return not (twice or missing or unended or unstarted or left or others)


if __name__ == "__main__":
    sys.exit(main())
