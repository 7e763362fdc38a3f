"""Starts, works a little and ends, with a pause of random length between any two of its acts.

So whatever comes next is as likely to be met by a kill as what came before.
"""

import random
import time

import tiny

STEPS, MOST_SECONDS = 3, 0.2


def pause() -> None:
    time.sleep(random.uniform(0, MOST_SECONDS))


pause()
spool = tiny.begin()
for number in range(STEPS):
    pause()
    spool.write("tool_completed", tool=f"tool {number}", agent="Writer")
pause()
spool.write("ended", status="succeeded", result="all done", error="", traceback="")
pause()
