"""Prints until its log was cut, then its last line."""

import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

spool = tiny.begin()
LOG = tiny.FOLDER / "log.txt"
LINE = "x" * 1023
cut = False
while not cut:
    before = LOG.stat().st_size
    for _ in range(2000):
        print(LINE)
    cut = LOG.stat().st_size < before
# Text printed while the log is truncated may precede the rest.
while b"was cut" not in LOG.read_bytes():
    time.sleep(0.01)
print("the last line", flush=True)
spool.write("ended", status="succeeded", result="printed", error="", traceback="")
