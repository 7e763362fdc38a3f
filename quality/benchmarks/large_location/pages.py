"""The pages of a large location: time on the server, without a browser."""

from statistics import median

from django.test import Client

from quality.benchmarks.timing import timed_requests
from quality.tables import print_heading, print_row
from viewer.models import Run

REQUESTS = 11


def report_pages(client: Client, kickoff: str) -> None:
    """Print the median response time of each page, and the processor time in it."""
    print_heading("page", f"median ms of {REQUESTS}", "processor ms", "KB", "goal")
    for name, address, goal in addresses(kickoff):
        size = len(client.get(address).content)
        taken = timed_requests(client, address, REQUESTS)
        milliseconds = [median(values) * 1000 for values in zip(*taken, strict=True)]
        print_row(name, f"{milliseconds[1]:.0f}", f"{milliseconds[2]:.0f}", f"{size / 1000:.0f}", goal)


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
