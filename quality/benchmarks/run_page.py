"""Measures the response time of the page of a long run."""

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from quality.temporary_data_folder import run_apart

if TYPE_CHECKING:
    from django.test import Client

ROOT = Path(__file__).resolve().parents[2]
LENGTHS = (1_000, 10_000)
REQUESTS = 30
GOAL_MILLISECONDS = 150
GOAL_TIMES = 2


def main() -> None:
    """Measure in a separate process with a temporary data folder."""
    with tempfile.TemporaryDirectory(prefix="forkline-bench-") as folder:
        run_apart("from quality.benchmarks.run_page import measure; measure()", folder)


def measure() -> None:
    """Print the table. Django is set up here, after the environment is complete."""
    import django

    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    from quality.benchmarks.generated_runs import generated_run
    from viewer.data_folder import prepare_data_folder

    prepare_data_folder()
    client = Client(headers={"host": f"{settings.ALLOWED_HOSTS[0]}:{settings.PORT}"})
    client.force_login(User.objects.create_superuser("bench"))
    report([median_milliseconds(client, generated_run(length).get_absolute_url()) for length in LENGTHS])


def median_milliseconds(client: "Client", address: str) -> float:
    """Return the median in milliseconds of several requests, after a warm-up."""
    taken: list[float] = []
    for _ in range(REQUESTS + 1):
        began = time.perf_counter()
        answer = client.get(address)
        taken.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200
    return median(taken[1:])


def report(medians: list[float]) -> None:
    small, large = medians
    print("| checkpoints of the run | server's answer, median | goal |")
    print("|---|---|---|")
    print(f"| {LENGTHS[0]:,} | {small:.0f} ms | at most {GOAL_MILLISECONDS} ms |")
    print(f"| {LENGTHS[1]:,} | {large:.0f} ms | at most {GOAL_TIMES} times {small:.0f} ms |")


if __name__ == "__main__":
    main()
