"""The import of a large location: until its first rows are shown, and until it is complete."""

import resource
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from django.test import Client

from quality.benchmarks.large_location import corpus
from viewer.importing import import_location
from viewer.importing.background import import_requested
from viewer.models import Location
from viewer.stores.polling.known_folders import MAX_STEP_SECONDS

GOAL_FIRST_ROWS, GOAL_SECONDS, GOAL_MEGABYTES = 0.5, 180, 500
# The time in which a person types a path.
SECONDS_TO_START = 4


def report_import(client: Client, source: Path) -> None:
    """Add the location as a person does, import the rest, and print both times."""
    # The page with the form that adds a location starts the reader processes.
    client.get("/locations/")
    time.sleep(SECONDS_TO_START)
    began, work = time.perf_counter(), time.process_time()
    page = client.post("/locations/add/", {"path": str(source)}, follow=True)
    first, first_work = time.perf_counter() - began, time.process_time() - work
    location = Location.objects.get()
    assert page.status_code == 200 and location.checkpoints.exists() and b"<progress" in page.content
    began, work = time.perf_counter(), processor_seconds()
    import_requested()
    whole, whole_work = time.perf_counter() - began, processor_seconds() - work
    while import_location(location).is_news:
        # Each import describes some of the runs.
        pass
    again, again_work = timed(lambda: import_location(location))
    polled(location)
    # Until the times of its folders are older than a step of any file system's clock.
    time.sleep(MAX_STEP_SECONDS + 1)
    polled(location)
    unchanged, unchanged_work = polled(location)
    corpus.write_new(source)
    new, new_work = polled(location)
    count, files = location.checkpoints.count(), sum(1 for _file in source.rglob("*.json"))
    assert count == files, (count, files)
    print(f"{count:,} checkpoints in {location.runs.count():,} runs\n")
    print("| | seconds | processor seconds | goal |\n|---|---:|---:|---|")
    print(f"| first rows of a new location | {first:.2f} | {first_work:.2f} | {GOAL_FIRST_ROWS} s |")
    print(f"| full import | {whole:.0f} | {whole_work:.0f} | {GOAL_SECONDS} s |")
    print(f"| complete listing, nothing has changed | {again:.2f} | {again_work:.2f} | |")
    print(f"| poll, nothing has changed | {unchanged:.3f} | {unchanged_work:.3f} | |")
    print(f"| poll, one new file | {new:.3f} | {new_work:.3f} | |")
    print(f"| memory of the import | {megabytes()} MB | | {GOAL_MEGABYTES} MB |\n", flush=True)


def polled(location: Location) -> tuple[float, float]:
    """Import as an open page does. Returns the seconds and processor seconds that it took."""
    return timed(lambda: import_location(location, wait=False))


def timed(work_on: Callable[[], object]) -> tuple[float, float]:
    """The seconds and processor seconds of a call."""
    began, work = time.perf_counter(), time.process_time()
    work_on()
    return time.perf_counter() - began, time.process_time() - work


def processor_seconds() -> float:
    """Processor time of this process and its reader processes."""
    readers = psutil.Process().children()
    return time.process_time() + sum(sum(reader.cpu_times()[:2]) for reader in readers)


def megabytes() -> int:
    """The peak of this process, and what its reader processes hold now."""
    readers = sum(reader.memory_info().rss for reader in psutil.Process().children())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 + readers // 2**20
