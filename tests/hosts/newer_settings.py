"""Settings of a machine that has a later version."""

from tests.jobs.worker_settings import *  # noqa: F403

VERSION = "9.9.9"
