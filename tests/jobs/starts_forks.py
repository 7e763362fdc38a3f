"""Starts forks or resumes of one checkpoint while other processes start the same ones."""

import os
import sys
import time
from pathlib import Path


def main() -> None:
    import django

    django.setup()
    from viewer.launching.start import BranchTaken, start_job
    from viewer.models import Checkpoint, Job

    kind, rounds, barrier = Job.Kind(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    checkpoint = Checkpoint.objects.get()
    for number in range(rounds):
        (barrier / f"{number}-{os.getpid()}").touch()
        while len(list(barrier.glob(f"{number}-*"))) < 3:
            time.sleep(0.001)
        branch = f"what-if-{number}" if kind == "fork" else "main"
        try:
            start_job(checkpoint, checkpoint.location.project, kind, branch, {}, [])
        except BranchTaken:
            continue


if __name__ == "__main__":
    main()
