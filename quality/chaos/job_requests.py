"""Requests jobs one after the other, as the web server does for a person: job_requests.py COUNT.

It stops when COUNT jobs exist. It inherits its settings from the process that starts it.
"""

import random
import sys
import time


def main(most: int) -> None:
    import django

    django.setup()
    from viewer.models import Job, Location
    from viewer.records.hosts import enqueue

    location = Location.objects.select_related("project").get()
    while Job.objects.count() < most:
        job = Job.objects.create(kind="fork", location=location, project=location.project, branch="what-if")
        enqueue(job)
        # As fast as two cores run them, so that no job waits for long.
        while Job.objects.unfinished().count() > 12:
            time.sleep(random.uniform(0, 0.2))


if __name__ == "__main__":
    main(int(sys.argv[1]))
