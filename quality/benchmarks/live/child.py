"""Writes events like a run with streamed text: one about every 30 ms by default."""

import importlib.util
import json
import os
import random
import sys
import time
from pathlib import Path

FOLDER = Path(sys.argv[1])
SPOOL = Path(__file__).resolve().parents[3] / "viewer" / "host" / "jobs" / "spool.py"

spec = importlib.util.spec_from_file_location("spool", SPOOL)
assert spec and spec.loader
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
spool = module.Spool(FOLDER)
inputs = json.loads((FOLDER / "request.json").read_text())["inputs"]
events, pause = int(inputs["events"]), float(inputs.get("pause", 0.03))

spool.write("started", pid=os.getpid(), engine="bench", engine_version="1", python_version="3")
pauses = random.Random(1)
for number in range(events):
    time.sleep(pauses.uniform(pause / 6, pause * 11 / 6))
    spool.write("tool_completed", tool=f"tool {number}", agent="Writer")
spool.write("ended", status="succeeded", result="", error="", traceback="")
