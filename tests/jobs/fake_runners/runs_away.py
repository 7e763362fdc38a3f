"""Ignores every signal, and goes on in a new process each millisecond, which nothing marks as the job's."""

import fcntl
import os
import signal
import sys
import time

if sys.argv[1] != "away":
    import tiny

    tiny.begin()
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    os.closerange(0, 100)
    if sys.argv[1] != "away":
        os.execve(sys.executable, [sys.executable, __file__, "away"], {"PATH": os.defpath})
    # No listing finds every such process, but each inherits this lock.
    fcntl.flock(os.open("away", os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
    # Nothing else would end it if the test is killed.
    end = time.monotonic() + 60
    # What else runs on this machine comes first. It runs away as fast while a processor is idle.
    os.nice(10)
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
        time.sleep(0.001)
    os._exit(0)
time.sleep(60)
