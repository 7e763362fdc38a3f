"""Settings of a worker in tests: the ordinary ones with a tiny runner."""

import os
from pathlib import Path

from checkpoint_site.settings import *  # noqa: F403

FAKE_RUNNERS = Path(__file__).resolve().parent / "fake_runners"
_ENGINES = os.environ.get("FAKE_ENGINES", "crewai").split()
JOB_RUNNERS = dict.fromkeys(_ENGINES, FAKE_RUNNERS / os.environ["FAKE_RUNNER"])
RUNNER_MODULES = {"crewai": "tiny_engine"}
PREWARM = "TINY_WARM" in os.environ
