"""The import of a large location: until its first rows are shown, and until it is complete."""

import resource
import time
from pathlib import Path

import psutil
from django.test import Client

from quality.benchmarks.large_location import corpus
from quality.benchmarks.timing import start_readers, timed
from quality.tables import print_heading, print_row
from viewer.host.locations.completing import complete_some
from viewer.host.locations.importing import import_location
from viewer.host.locations.sources import ImportCursor, ImportSummary
from viewer.models import Location
from viewer.stores.json_folder import MAX_STEP_SECONDS

GOAL_FIRST_ROWS, GOAL_SECONDS, GOAL_MEGABYTES = 0.5, 180, 500


def report_import(client: Client, source: Path) -> None:
    """Add the location as a person does, import the rest, and print both times."""
    start_readers(client)
    pages = []
    add = {"path": str(source)}
    first = timed(lambda: pages.append(client.post("/locations/add/", add, follow=True)))
    location = Location.objects.get()
    assert pages[0].status_code == 200 and location.checkpoints.exists()
    assert b"<progress" in pages[0].content
    whole = timed(lambda: import_in_background(location))
    again = timed(lambda: import_location(location))
    cursor = polled(location).cursor
    # Until the times of its folders are older than a step of any file system's clock.
    time.sleep(MAX_STEP_SECONDS + 1)
    summaries = [polled(location, cursor)]
    unchanged = timed(lambda: summaries.append(polled(location, summaries[-1].cursor)))
    corpus.write_new(source)
    new = timed(lambda: summaries.append(polled(location, summaries[-1].cursor)))
    assert [one.read for one in summaries] == [0, 0, 1], summaries
    count, files = location.checkpoints.count(), sum(1 for _file in source.rglob("*.json"))
    assert count == files, (count, files)
    print(f"{count:,} checkpoints in {location.runs.count():,} runs\n")
    print_heading("", "seconds", "processor seconds", "goal")
    for what, passed, worked, digits, goal in (
        ("first rows of a new location", first.passed, first.own, 2, f"{GOAL_FIRST_ROWS} s"),
        ("full import", whole.passed, whole.used, 0, f"{GOAL_SECONDS} s"),
        ("complete listing, nothing has changed", again.passed, again.own, 2, ""),
        ("poll, nothing has changed", unchanged.passed, unchanged.own, 3, ""),
        ("poll, one new file", new.passed, new.own, 3, ""),
    ):
        print_row(what, f"{passed:.{digits}f}", f"{worked:.{digits}f}", goal)
    print_row("memory of the import", f"{megabytes()} MB", "", f"{GOAL_MEGABYTES} MB")
    print()


def import_in_background(location: Location) -> None:
    """Import and describe everything, as the worker does."""
    import_location(location, wait=False)
    while complete_some():
        pass


def polled(location: Location, cursor: ImportCursor | None = None) -> ImportSummary:
    """Import as the worker does that observes the location."""
    return import_location(location, wait=False, cursor=cursor)


def megabytes() -> int:
    """The peak of this process, and what its reader processes hold now."""
    readers = sum(reader.memory_info().rss for reader in psutil.Process().children())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 + readers // 2**20
