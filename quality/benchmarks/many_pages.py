"""Measures how soon many pages that show one job, or several, receive an event."""

import http.cookiejar
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

import psutil

from quality.benchmarks.live_latency import queued_job, served

ROOT = Path(__file__).resolve().parents[2]
# Jobs, pages per job, events per job, and the seconds between events.
MEASURED = ((1, 1, 300, 0.03), (1, 20, 300, 0.03), (1, 60, 300, 0.03), (20, 10, 1000, 0.02))
# The number of jobs that one worker runs at a time.
JOBS_A_WORKER = 4
# Events that pages do not show as rows.
NOT_SHOWN = ("steps", "ended")

# What each page received: the sequence number of an event, and the time.
Received = list[list[tuple[int, float]]]


def main() -> None:
    columns = (
        "jobs",
        "pages",
        "events a second",
        "p50 ms",
        "p95 ms",
        "missed",
        "duplicates",
        "cut off",
        "server seconds",
        "memory",
    )
    print(f"| {' | '.join(columns)} |")
    print(f"|{'---:|' * len(columns)}")
    for measured in MEASURED:
        # A process reads Django's settings only once.
        code = f"from quality.benchmarks.many_pages import measure; measure{measured}"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def measure(jobs: int, pages: int, events: int, pause: float) -> None:
    """Print one row of the table."""
    with tempfile.TemporaryDirectory(prefix="forkline-bench-") as folder, served(folder) as link:
        cookie, queued = cookie_of(link), queued_jobs(jobs, events, pause)
        with workers(jobs):
            received, cut_off, used, memory = watched(queued, pages, link.split("/login")[0], cookie)
        report(queued, pages, received, cut_off, used, memory)


def cookie_of(link: str) -> str:
    """Follow the login link. Return the session cookie."""
    jar = http.cookiejar.CookieJar()
    urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar)).open(link).close()
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


def queued_jobs(count: int, events: int, pause: float) -> list[Any]:
    """Return ``count`` queued jobs of one location. They start once their pages are open."""
    first = queued_job(events)
    request = {"inputs": {"events": events, "pause": pause}}
    values = {name: getattr(first, name) for name in ("kind", "location", "project", "branch")}
    first.delete()
    return [type(first).objects.create(**values, request=request) for _ in range(count)]


@contextmanager
def workers(jobs: int) -> Iterator[None]:
    """Run a second worker for the jobs that exceed the slots of the first."""
    more = jobs - JOBS_A_WORKER
    if more <= 0:
        yield
        return
    worker = subprocess.Popen([sys.executable, "manage.py", "worker", "--jobs", str(more)], cwd=ROOT)
    try:
        yield
    finally:
        worker.terminate()
        worker.wait()


def watched(
    jobs: Sequence[Any], pages: int, site: str, cookie: str
) -> tuple[Received, int, float, list[int]]:
    """Return what each page received, the reconnects, and the server's processor time and memory.

    The jobs are enqueued once all pages are open.
    """
    from viewer.jobs.queue.scheduling import enqueue

    server, socket = web_server(), site.replace("http", "ws")
    addresses = ",".join(f"{socket}/ws/jobs/{job.pk}/?show=page" for job in jobs)
    command = [sys.executable, "-m", "quality.benchmarks.live.watchers", str(pages), addresses, site, cookie]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as watchers:
        assert watchers.stdout and watchers.stdout.readline() == "open\n"
        memory, before = [megabytes(server)], processor_seconds(server)
        for job in jobs:
            enqueue(job)
        cut_off, received = json.loads(watchers.stdout.readline())
        memory.append(megabytes(server))
    return received, cut_off, processor_seconds(server) - before, memory


def web_server() -> psutil.Process:
    """Return the process of the web server."""
    ours = psutil.Process(os.getpid()).children(recursive=True)
    return next(process for process in ours if "checkpoint_site.server" in process.cmdline())


def processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def megabytes(process: psutil.Process) -> int:
    return int(process.memory_info().rss) // 1_000_000


def report(
    jobs: Sequence[Any],
    pages: int,
    received: Received,
    cut_off: int,
    used: float,
    memory: Sequence[int],
) -> None:
    late: list[float] = []
    moments: list[float] = []
    missed = twice = 0
    for number, job in enumerate(jobs):
        written = {seq: at.timestamp() for seq, at in job.events.values_list("seq", "at")}
        shown = set(job.events.exclude(kind__in=NOT_SHOWN).values_list("seq", flat=True))
        moments += written.values()
        for seen in received[number * pages : (number + 1) * pages]:
            seqs = [seq for seq, _ in seen]
            missed += len(shown - set(seqs))
            twice += len(seqs) - len(set(seqs))
            late += [at - written[seq] for seq, at in seen]
    cuts = [cut * 1000 for cut in quantiles(late, n=100)]
    rate = len(moments) / (max(moments) - min(moments))
    values = (
        len(jobs),
        len(received),
        f"{rate:.0f}",
        f"{cuts[49]:.0f}",
        f"{cuts[94]:.0f}",
        missed,
        twice,
        cut_off,
        f"{used:.1f}",
    )
    print(f"| {' | '.join(map(str, values))} | {memory[0]} MB, then {memory[1]} MB |", flush=True)


if __name__ == "__main__":
    main()
