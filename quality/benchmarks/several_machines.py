"""Measures Forkline with its rows in PostgreSQL: starts, requests to another host, and its memory."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psutil

from quality.benchmarks.many_pages import cookie_of, processes, queued_jobs, start, watch
from quality.cluster.__main__ import ADD, STORE
from quality.cluster.database import Server, used_server
from quality.served import served
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT

STARTS, EVENTS_OF_START, GOAL_QUEUE, GOAL_EVENT = 20, 3, 50, 1000
PEOPLE, EVENTS, PAUSE_SECONDS = 50, 300, 0.03
GOAL_MEGABYTES = 2000
OTHER_HOST, REQUESTS, GOAL_REQUEST = "gpu-2", 60, 150
SAMPLE_SECONDS, IDLE_SECONDS = 0.5, 1.0


def main() -> None:
    with used_server() as server, served() as dashboard:
        jobs = queued_jobs(STARTS + 1, EVENTS_OF_START, PAUSE_SECONDS)
        report_starts([started_after(job) for job in jobs][1:])
        with another_host(dashboard.folder / OTHER_HOST):
            report_requests()
        jobs = queued_jobs(1, EVENTS, PAUSE_SECONDS)
        with sampled_memory(server) as samples:
            watch(jobs, PEOPLE, [dashboard.site], cookie_of(dashboard.link))
        report_memory(samples)


def started_after(job: Any) -> tuple[float, float]:
    """Start a job. Return the milliseconds until a worker has claimed it, and until its first event.

    The host is warm and idle: it has ended the job before.
    """
    time.sleep(IDLE_SECONDS)
    began = time.time()
    start([job])
    while not job.has_ended:
        time.sleep(0.05)
        job.refresh_from_db()
    assert job.status == job.Status.SUCCEEDED, job.error
    first = job.events.order_by("seq").values_list("at", flat=True)[0]
    return 1000 * (job.started_at.timestamp() - began), 1000 * (first.timestamp() - began)


def report_starts(measured: Sequence[tuple[float, float]]) -> None:
    print_heading("from the click to", "median ms", "p95 ms", "goal")
    for name, values, goal in zip(
        ("the claim", "the first event"), zip(*measured, strict=True), (GOAL_QUEUE, GOAL_EVENT), strict=True
    ):
        print_row(name, f"{median(values):.0f}", f"{quantiles(values, n=20)[-1]:.0f}", f"{goal} ms")


@contextmanager
def another_host(folder: Path) -> Iterator[None]:
    """Run the worker of another host, with a location and a project in this folder."""
    project, data = folder / "project", folder / "data"
    shutil.copytree(STORE, project / "checkpoints")
    (project / "crew.py").write_text("from crewai import Crew\n\ndef build() -> Crew: ...\n")
    own = {"DATA_DIR": str(data), "CHECKPOINT_ROOTS": str(project)}
    environment = {**os.environ, **own}
    command = [sys.executable, "manage.py", "worker", "--host", OTHER_HOST]
    with (folder / "log").open("wb") as log:
        worker = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        while not (data / "host_id").exists():
            time.sleep(0.1)
        subprocess.run([sys.executable, "-c", ADD, project], cwd=ROOT, env=environment, check=True)
        yield
    finally:
        worker.terminate()
        worker.wait()


def report_requests() -> None:
    """Ask the other host, as web servers do."""
    from viewer.host_requests import FindEntryPoints, ReadBody, ask
    from viewer.models import Checkpoint

    checkpoint = Checkpoint.objects.filter(location__host__name=OTHER_HOST).latest("row")
    location = checkpoint.location
    assert location.project
    requests = {
        "a checkpoint's body": ReadBody(checkpoint.pk),
        "the entry points of a project": FindEntryPoints(location.engine, location.project.folder),
    }
    print_heading("request to another host", "median ms", "p95 ms", "goal for the median")
    for name, request in requests.items():
        seconds = []
        for _ in range(REQUESTS):
            began = time.perf_counter()
            ask(request, host=location.host_id)
            seconds.append(1000 * (time.perf_counter() - began))
        print_row(name, f"{median(seconds):.0f}", f"{quantiles(seconds, n=20)[-1]:.0f}", f"{GOAL_REQUEST} ms")


def postgresql_processes(server: Server) -> list[psutil.Process]:
    """Return the processes of the server, one for each connection."""
    postmaster = psutil.Process(int((server.data / "postmaster.pid").read_text().split()[0]))
    return [postmaster, *postmaster.children()]


@contextmanager
def sampled_memory(server: Server) -> Iterator[dict[str, int]]:
    """Yield the most memory in bytes of each part within the block. Shared pages count once."""
    most: dict[str, int] = {}
    ended = threading.Event()
    parts: dict[str, Any] = {
        "web server": lambda: processes("checkpoint_site.server"),
        "worker": lambda: processes("worker"),
        "PostgreSQL": lambda: postgresql_processes(server),
    }

    def sample() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            for name, found in parts.items():
                try:
                    used = sum(one.memory_full_info().pss for one in found())
                except psutil.Error:
                    # A connection has ended meanwhile.
                    continue
                most[name] = max(most.get(name, 0), used)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


def report_memory(most: dict[str, int]) -> None:
    print_heading(f"{PEOPLE} people watch a job", "memory", "goal")
    for name, used in most.items():
        print_row(name, f"{used / 1e6:.0f} MB", "")
    together = sum(used for name, used in most.items() if name != "worker")
    print_row("web server and PostgreSQL", f"{together / 1e6:.0f} MB", f"{GOAL_MEGABYTES} MB")


if __name__ == "__main__":
    main()
