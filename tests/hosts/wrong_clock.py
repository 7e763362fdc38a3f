"""Settings of a machine whose clock differs by ``CLOCK_SECONDS``.

A library that shifts the clock of whole processes also breaks the sleeping of Python's threads.
"""

import os
import time
from datetime import timedelta

from django.utils import timezone

from tests.jobs.worker_settings import *  # noqa: F403

_seconds, _now, _time = float(os.environ["CLOCK_SECONDS"]), timezone.now, time.time
timezone.now = lambda: _now() + timedelta(seconds=_seconds)
time.time = lambda: _time() + _seconds
