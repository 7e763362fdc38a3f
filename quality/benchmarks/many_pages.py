"""Measures how soon many pages that show one job, or several, receive an event."""

import http.cookiejar
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from statistics import quantiles
from typing import Any, NamedTuple

import psutil

from quality.benchmarks.live_latency import queued_job
from quality.benchmarks.timing import processor_seconds
from quality.served import served
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import ROOT
from scripts.served_demo import log_in

# Jobs, pages per job, events per job, and the seconds between events.
MEASURED = ((1, 1, 300, 0.03), (1, 20, 300, 0.03), (1, 60, 300, 0.03), (20, 10, 1000, 0.02))
# The number of jobs that one worker runs at a time.
JOBS_A_WORKER = 4
# Events that pages do not show as rows.
NOT_SHOWN = ("steps", "ended")

# What each page received: the sequence number of an event, and the time.
Received = list[list[tuple[int, float]]]


def main() -> None:
    counts = ("jobs", "pages", "events a second", "p50 ms", "p95 ms", "missed", "duplicates", "cut off")
    print_heading(*counts, "server seconds", "workers' seconds", "pages' seconds", "memory")
    for measured in MEASURED:
        # A process reads Django's settings only once.
        code = f"from quality.benchmarks.many_pages import measure; measure{measured}"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def measure(jobs: int, pages: int, events: int, pause: float) -> None:
    """Print one row of the table."""
    with served() as dashboard:
        cookie, queued = cookie_of(dashboard.link), queued_jobs(jobs, events, pause)
        with workers(jobs):
            watched = watch(queued, pages, [dashboard.site], cookie)
        report(queued, pages, watched)


def cookie_of(link: str) -> str:
    """Log in with the link. Return the session cookie."""
    jar = http.cookiejar.CookieJar()
    log_in(urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar)), link)
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


def queued_jobs(count: int, events: int, pause: float) -> list[Any]:
    """Return ``count`` jobs of one location, which ``start`` starts once their pages are open."""
    first = queued_job(events)
    request = {"inputs": {"events": events, "pause": pause}}
    values = {name: getattr(first, name) for name in ("kind", "location", "project", "branch")}
    first.delete()
    # Otherwise, a worker would start them within two seconds.
    values["start_at"] = datetime.now(UTC) + timedelta(days=1)
    return [type(first).objects.create(**values, request=request) for _ in range(count)]


def start(jobs: Sequence[Any]) -> None:
    """Have the workers start these jobs."""
    from viewer.records.hosts import enqueue

    for job in jobs:
        type(job).objects.filter(pk=job.pk).update(start_at=None)
        enqueue(job)


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


class Watched(NamedTuple):
    """What each page received, the reconnects, processor times in seconds, and the server's memory in MB."""

    received: Received
    cut_off: int
    server: float
    workers: float
    pages: float
    memory: tuple[int, int]


def watch(jobs: Sequence[Any], pages: int, sites: Sequence[str], cookie: str) -> Watched:
    """Open pages of each job at each web server, start the jobs, and return what the pages received.

    ``pages`` is for each job and server. The first site is the origin of all. ``received`` lists the pages of
    the first job at all servers first.
    """
    servers = processes("checkpoint_site.server")
    with ExitStack() as open_things:
        watchers = [
            open_things.enter_context(started_watchers(jobs, pages, site, sites[0], cookie)) for site in sites
        ]
        for one in watchers:
            assert one.stdout and one.stdout.readline() == "open\n"
        workers = processes("worker")
        memory = sum(map(megabytes, servers))
        before = processor_seconds(servers), processor_seconds(workers)
        start(jobs)
        found = [json.loads(one.stdout.readline()) for one in watchers if one.stdout]
        after = processor_seconds(servers), processor_seconds(workers)
    received = [
        page
        for number in range(len(jobs))
        for _cut_off, of_site, _seconds in found
        for page in of_site[number * pages : (number + 1) * pages]
    ]
    return Watched(
        received,
        sum(one[0] for one in found),
        after[0] - before[0],
        after[1] - before[1],
        sum(one[2] for one in found),
        (memory, sum(map(megabytes, servers))),
    )


def started_watchers(
    jobs: Sequence[Any], pages: int, site: str, origin: str, cookie: str
) -> "subprocess.Popen[str]":
    """Start the program that opens the pages of one web server."""
    addresses = ",".join(f"{site.replace('http', 'ws')}/ws/jobs/{job.pk}/?show=page" for job in jobs)
    command = [
        sys.executable,
        "-m",
        "quality.benchmarks.live.watchers",
        str(pages),
        addresses,
        origin,
        cookie,
    ]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def web_server() -> psutil.Process:
    """Return the process of the web server."""
    return processes("checkpoint_site.server")[0]


def processes(argument: str) -> list[psutil.Process]:
    """Return the processes of this benchmark that were started with this argument."""
    ours = psutil.Process(os.getpid()).children(recursive=True)
    return [process for process in ours if argument in process.cmdline()]


def megabytes(process: psutil.Process) -> int:
    return int(process.memory_info().rss) // 1_000_000


def report(jobs: Sequence[Any], pages: int, watched: Watched) -> None:
    late: list[float] = []
    moments: list[float] = []
    missed = twice = 0
    for number, job in enumerate(jobs):
        written = {seq: at.timestamp() for seq, at in job.events.values_list("seq", "at")}
        shown = set(job.events.exclude(kind__in=NOT_SHOWN).values_list("seq", flat=True))
        moments += written.values()
        for seen in watched.received[number * pages : (number + 1) * pages]:
            seqs = [seq for seq, _ in seen]
            missed += len(shown - set(seqs))
            twice += len(seqs) - len(set(seqs))
            late += [at - written[seq] for seq, at in seen]
    cuts = [cut * 1000 for cut in quantiles(late, n=100)]
    rate = len(moments) / (max(moments) - min(moments))
    print_row(
        *(len(jobs), len(watched.received)),
        *(f"{value:.0f}" for value in (rate, cuts[49], cuts[94])),
        *(missed, twice, watched.cut_off),
        *(f"{used:.1f}" for used in (watched.server, watched.workers, watched.pages)),
        f"{watched.memory[0]} MB, then {watched.memory[1]} MB",
    )


if __name__ == "__main__":
    main()
