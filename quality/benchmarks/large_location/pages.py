"""The pages of a large location: time on the server, without a browser."""

import time
from statistics import median

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from viewer.models import Run

REQUESTS = 11


def logged_in() -> Client:
    """A client that may run."""
    client = Client(headers={"host": f"{settings.ALLOWED_HOSTS[0]}:{settings.PORT}"})
    client.force_login(User.objects.create_superuser("bench"))
    return client


def report_pages(client: Client, kickoff: str) -> None:
    """Print the median response time of each page, and the processor time in it."""
    print(f"| page | median ms of {REQUESTS} | processor ms | KB | goal |\n|---|---:|---:|---:|---|")
    for name, address, goal in addresses(kickoff):
        taken, worked, size = [], [], 0
        for _request in range(REQUESTS + 1):
            began, work = time.perf_counter(), time.process_time()
            answer = client.get(address)
            taken.append((time.perf_counter() - began) * 1000)
            worked.append((time.process_time() - work) * 1000)
            assert answer.status_code == 200, (name, answer.status_code)
            size = len(answer.content)
        values = f"{median(taken[1:]):.0f} | {median(worked[1:]):.0f} | {size / 1000:.0f}"
        print(f"| {name} | {values} | {goal} |", flush=True)


def addresses(kickoff: str) -> list[tuple[str, str, str]]:
    """The name, address and goal of each page."""
    run = Run.objects.get(checkpoints__run_key=kickoff, checkpoints__row=0)
    own, middle = run.get_absolute_url(), run.checkpoints.get(row=run.checkpoint_count // 2)
    fork = run.checkpoints.exclude(branch="main").order_by("row")[run.branch_count]
    return [
        ("home", "/", ""),
        ("location", run.location.get_absolute_url(), ""),
        ("run", own, "150 ms"),
        ("run, selection in its middle", f"{own}?at={middle.checkpoint_id}", "150 ms"),
        ("run, one branch", f"{own}?branch={fork.branch}", "150 ms"),
        ("more rows", f"{own}rows/?from={middle.row}", ""),
        ("run, graph", f"{own}?view=graph", "1000 ms"),
        ("timeline", f"{own}timeline/", ""),
    ]
