"""Ignores signals, and so does its grandchild, which left its session and environment."""

import os
import signal
import subprocess
import sys
import time

import tiny

spool = tiny.begin()
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
grandchild = subprocess.Popen([sys.executable, "-c", stubborn], start_new_session=True, env={})
forked = os.fork()
if forked == 0:
    os.setsid()
    time.sleep(600)
spool.write("warning", message=f"{grandchild.pid} {forked}")
print("I do not stop", flush=True)
# Nothing else would end it if the test is killed.
end = time.monotonic() + 600
while time.monotonic() < end:
    time.sleep(0.05)
