"""Prints until its log has been cut, then its last line."""

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
print("the last line", flush=True)
spool.write("ended", status="succeeded", result="printed", error="", traceback="")
