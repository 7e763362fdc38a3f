"""A web process of the cluster: requests forks of checkpoints of all hosts: web.py NUMBER WEBS FORKS.

The key of a fork is derived from its number, so a request that is repeated after a kill finds the same job.
Each line that it prints is the seconds that a checkpoint took to arrive from its host.
"""

import sys
import time
from uuid import NAMESPACE_URL, UUID, uuid5

# Jobs that are queued or run at the same time.
MAX_UNFINISHED = 24
PAUSE_SECONDS = 0.2


def main(number: int, webs: int, forks: int) -> None:
    import django

    django.setup()
    from django.db import DatabaseError, connection

    from viewer.host_requests import HostRefusal

    due = list(range(number, forks, webs))
    while due:
        try:
            if request(due[0]):
                due.pop(0)
        except HostRefusal:
            # Its host is away, so its turn comes later.
            due.append(due.pop(0))
            time.sleep(PAUSE_SECONDS)
        except DatabaseError:
            connection.close()
            time.sleep(PAUSE_SECONDS)


def request(number: int) -> bool:
    """Request a fork. Return False if others have to end before. Raises HostRefusal, DatabaseError."""
    from viewer.host_requests import ReadBody, ask
    from viewer.launching.start import start_job
    from viewer.models import Checkpoint, Job, Location

    if Job.objects.unfinished().count() >= MAX_UNFINISHED:
        time.sleep(PAUSE_SECONDS)
        return False
    locations = Location.objects.order_by("pk")
    location = locations[number % locations.count()]
    checkpoint = Checkpoint.objects.filter(location=location).select_related("location__project").first()
    assert checkpoint
    began = time.monotonic()
    ask(ReadBody(checkpoint.pk))
    print(time.monotonic() - began, flush=True)
    project = checkpoint.location.project
    start_job(checkpoint, project, Job.Kind.FORK, f"fork-{number}", {}, [], idempotency_key=key_of(number))
    return True


def key_of(number: int) -> UUID:
    """Return the key of the form of a fork."""
    return uuid5(NAMESPACE_URL, f"cluster:{number}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
