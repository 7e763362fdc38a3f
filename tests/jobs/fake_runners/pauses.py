"""Starts, works a little and ends, with a random pause between any two actions.

A kill is therefore equally likely before each of them.
"""

import random
import time

import tiny

STEPS, MAX_SECONDS = 3, 0.2


def pause() -> None:
    time.sleep(random.uniform(0, MAX_SECONDS))


pause()
spool = tiny.begin()
for number in range(STEPS):
    pause()
    spool.write("tool_completed", tool=f"tool {number}", agent="Writer")
pause()
spool.write("ended", status="succeeded", result="all done", error="", traceback="")
pause()
