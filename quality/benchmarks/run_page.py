"""Measures the response time of the page of a long run."""

from statistics import median
from typing import TYPE_CHECKING

from quality.benchmarks.timing import timed_requests
from quality.tables import print_heading, print_row
from quality.temporary_data_folder import logged_in, temporary_data_folder

if TYPE_CHECKING:
    from django.test import Client

LENGTHS = (1_000, 10_000)
REQUESTS = 30
GOAL_MILLISECONDS = 150
GOAL_TIMES = 2


def main() -> None:
    """Measure with a temporary data folder, and print the table."""
    with temporary_data_folder():
        from tests.lineage.generated_runs import generated_run

        client = logged_in()
        addresses = [generated_run(length).get_absolute_url() for length in LENGTHS]
        report([median_milliseconds(client, address) for address in addresses])


def median_milliseconds(client: "Client", address: str) -> float:
    """Return the median in milliseconds of several requests, after a warm-up."""
    return median(one.passed * 1000 for one in timed_requests(client, address, REQUESTS + 1)[1:])


def report(medians: list[float]) -> None:
    small, large = medians
    print_heading("checkpoints of the run", "server's answer, median", "goal")
    print_row(f"{LENGTHS[0]:,}", f"{small:.0f} ms", f"at most {GOAL_MILLISECONDS} ms")
    print_row(f"{LENGTHS[1]:,}", f"{large:.0f} ms", f"at most {GOAL_TIMES} times {small:.0f} ms")


if __name__ == "__main__":
    main()
