"""How soon many pages that watch one job are told of an event."""

import http.cookiejar
import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench.live_latency import queued_job, served

ROOT = Path(__file__).resolve().parent.parent
PAGES = (1, 20, 60)
EVENTS = 300
# Events that no page shows as rows.
NOT_SHOWN = ("steps", "ended")


def main() -> None:
    print("| pages | events each | p50 ms | p95 ms | missed or told twice |")
    print("|---:|---:|---:|---:|---:|")
    for count in PAGES:
        # Django's settings are read once in a process.
        code = f"from bench.many_pages import measure; measure({count})"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def measure(count: int) -> None:
    """Print one line of the table."""
    with tempfile.TemporaryDirectory(prefix="forkline-bench-") as folder, served(folder) as link:
        cookie, job = cookie_of(link), queued_job(Path(folder), EVENTS)
        report(count, job, watched(count, link.split("/login")[0], cookie, job))


def cookie_of(link: str) -> str:
    """The session of who follows the login link."""
    jar = http.cookiejar.CookieJar()
    urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar)).open(link).close()
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


def watched(count: int, site: str, cookie: str, job: Any) -> list[list[tuple[int, float]]]:
    """What each page was told, and when: the job is offered once all of them are open."""
    from viewer.jobs.tasks import offer

    address = f"{site.replace('http', 'ws')}/ws/jobs/{job.pk}/?after=0&show=page"
    command = [sys.executable, "-m", "bench.live.watchers", str(count), address, site, cookie]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as watchers:
        assert watchers.stdout and watchers.stdout.readline() == "open\n"
        offer(job)
        told: list[list[tuple[int, float]]] = json.loads(watchers.stdout.readline())
    return told


def report(count: int, job: Any, told: list[list[tuple[int, float]]]) -> None:
    written = {seq: at.timestamp() for seq, at in job.events.values_list("seq", "at")}
    shown = sorted(job.events.exclude(kind__in=NOT_SHOWN).values_list("seq", flat=True))
    wrong = sum(sorted(seq for seq, _ in seen) != shown for seen in told)
    cuts = [cut * 1000 for cut in quantiles([at - written[seq] for seen in told for seq, at in seen], n=100)]
    print(f"| {count} | {len(shown)} | {cuts[49]:.0f} | {cuts[94]:.0f} | {wrong} |", flush=True)


if __name__ == "__main__":
    main()
