"""Writes its last event and does not exit, like a program with a thread that was never joined."""

import time

import tiny

spool = tiny.begin()
spool.write("ended", status="succeeded", result="done, but still here", error="", traceback="")
time.sleep(600)
