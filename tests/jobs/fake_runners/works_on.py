"""Runs task after task, each with one model call of 10 tokens, until it is interrupted.

The file ``rounds`` in the project's folder holds the number of tasks that it may run; it is read each time.
"""

import time
from pathlib import Path

import tiny

spool = tiny.begin()
done = 0
try:
    while True:
        rounds = Path("rounds")
        if rounds.exists() and done >= int(rounds.read_text() or 0):
            time.sleep(0.005)
            continue
        done += 1
        task = f"task-{done}"
        spool.write("task_started", task=task, position=done, description=f"Task {done}", agent="Writer")
        spool.write("model_started", model="tiny", agent="Writer")
        spool.write("model_completed", model="tiny", agent="Writer", tokens=10, total_tokens=10 * done)
        spool.write("task_completed", task=task, position=done, agent="Writer", output=f"output {done}")
        time.sleep(0.02)
except KeyboardInterrupt:
    spool.write("ended", status="cancelled", result="", error="", traceback="")
