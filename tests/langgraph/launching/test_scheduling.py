"""LangGraph's jobs start at their time and stop at their limits, as all jobs do."""

from tests.langgraph.launching.test_running import address, ran, rows, threads, worker
from tests.terminal import Terminal
from tests.waiting import wait_until
from viewer.launching.start import move_start
from viewer.models import Job, Location

__all__ = ["threads", "worker"]
FAN = ("--entrypoint", "graphs:fan")


def test_a_fork_waits_for_its_time_and_stops_before_its_limit_is_exceeded(
    worker: None, threads: Location, terminal: Terminal
) -> None:
    start = address(rows(threads, "fan")[2])
    later = ("--branch", "later", "--at", "2099-01-01T00:00:00", "--limit", "steps=2")
    job = Job.objects.get(pk=terminal.document("fork", start, *FAN, *later)["job"])
    now = Job.objects.get(pk=terminal.document("fork", start, *FAN, "--branch", "now")["job"])
    wait_until(lambda: Job.objects.get(pk=now.pk).has_ended)
    job.refresh_from_db()
    assert (job.status, job.start_at is not None, job.became_due_at) == ("queued", True, None)
    assert ran(threads) == ["end", "left", "right"]
    assert move_start(job, None)
    wait_until(lambda: Job.objects.get(pk=job.pk).has_ended)
    job.refresh_from_db()
    assert (job.status, (job.limit_hit or {}).get("measure")) == ("cancelled", "steps")
    assert ran(threads) == ["end", "left", "left", "right", "right"]
