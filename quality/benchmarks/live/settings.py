"""The ordinary settings with a runner that only writes events."""

from pathlib import Path

from checkpoint_site.settings import *  # noqa: F403

JOB_RUNNERS = {"crewai": Path(__file__).resolve().parent / "child.py"}
# A prewarmed process cannot run this runner.
PREWARM = False
