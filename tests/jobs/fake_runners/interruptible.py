"""Reports that it was cancelled when it is interrupted, as the real runner does."""

import time

import tiny

spool = tiny.begin()
spool.write("task_started", task="a", position=1, description="Task a", agent="Writer")
try:
    while True:
        time.sleep(0.01)
except KeyboardInterrupt:
    print("tidied up")
    spool.write("ended", status="cancelled", result="", error="", traceback="")
