"""Writes an event every few milliseconds until the file ``go`` exists, then succeeds."""

import time
from pathlib import Path

import tiny

spool = tiny.begin()
written = 0
while not Path("go").exists():
    if written < 500:
        written += 1
        spool.write("text", text=f"word{written} ", agent="Writer")
    time.sleep(0.005)
spool.write("ended", status="succeeded", result=str(written), error="", traceback="")
