"""The ordinary settings, with a child that only writes events in the runner's place."""

from pathlib import Path

from checkpoint_site.settings import *  # noqa: F403

JOB_RUNNERS = {"crewai": Path(__file__).resolve().parent / "child.py"}
# Its child is none that a process could wait with.
PREWARM = False
