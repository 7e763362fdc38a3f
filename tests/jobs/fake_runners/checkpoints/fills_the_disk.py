"""Succeeds with five checkpoints, four of which could not be written; ``why.json`` says why."""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

spool = tiny.begin()
spool.write("checkpoint", id="a", parent="", path="/nowhere/a.json", branch="main", trigger="task_completed")
for _ in range(4):
    spool.write("checkpoint_failed", **json.loads(Path("why.json").read_text()))
spool.write("ended", status="succeeded", result="four tasks done", error="", traceback="")
