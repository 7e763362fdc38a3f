"""A child that does what costs money once: it adds its job to ``paid`` in the project's folder."""

import importlib.util
import os
import random
import sys
import time
from pathlib import Path

FOLDER = Path(sys.argv[1])
SPOOL = Path(__file__).resolve().parent.parent / "viewer" / "jobs" / "spool.py"
STEPS, MOST_SECONDS = 3, 0.2


def pause() -> None:
    # Whatever comes next is as likely to be met by a kill as what came before.
    time.sleep(random.uniform(0, MOST_SECONDS))


spec = importlib.util.spec_from_file_location("spool", SPOOL)
assert spec and spec.loader
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
pause()
spool = module.Spool(FOLDER)
spool.write("started", pid=os.getpid(), engine="battery", engine_version="1", python_version="3")
pause()
paid = os.open("paid", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(paid, f"{FOLDER.name}\n".encode())
for number in range(STEPS):
    pause()
    spool.write("tool_completed", tool=f"tool {number}", agent="Writer")
pause()
spool.write("ended", status="succeeded", result="paid", error="", traceback="")
pause()
