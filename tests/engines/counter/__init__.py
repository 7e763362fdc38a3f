"""A small engine that proves the interface: several units count up together in each step.

A location is a folder of threads, and a checkpoint is ``<thread>/<id>.json``:

    {"counter": 1, "id": "s1", "parent": null, "at": "…", "trigger": "step", "limit": 2,
     "state": {"label": "sheep", "by": 1, "is_fast": false},
     "units": {"left": 1, "right": 1}}

Each unit is done when its count has reached ``limit``. Every step raises all that are not.
"""

NAME, PACKAGE = "counter", "tests.engines.counter"
