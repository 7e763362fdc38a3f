"""Grows past every limit, as the file ``grow`` says: in memory, processor time, processes or time.

What grows is a grandchild in another session, whose parent has exited.
"""

import os
import time
from pathlib import Path

import tiny

spool = tiny.begin()
what = Path("grow").read_text()
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    kept, grown = [], 0
    if what == "processes":
        # More than twice the limit.
        for _number in range(100):
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
    # Nothing else would end it if the test is killed.
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if what == "memory":
            kept.append(bytearray(10_000_000))
            # Each process stays below the limit. Only all of them together exceed it.
            if len(kept) == 6:
                grown += 1
                if grown == 20:
                    os._exit(1)
                if os.fork():
                    time.sleep(60)
                kept.clear()
        elif what == "seconds":
            sum(range(100_000))
        else:
            time.sleep(1)
    os._exit(0)
time.sleep(60)
