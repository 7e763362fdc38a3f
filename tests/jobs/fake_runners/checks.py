"""Runs a preflight check: reports its keys and modules. Waits while the file ``wait`` exists."""

import os
import sys
import time
from pathlib import Path

import tiny

spool = tiny.begin()
if tiny.request()["kind"] != "preflight":
    raise SystemExit("not a preflight check")
while Path("print").exists():
    print("an endless line " * 1000)
while Path("wait").exists():
    time.sleep(0.01)
key = Path("keys.env").read_text().strip().rpartition("=")[2] if Path("keys.env").exists() else ""
given = os.environ.get("OPENAI_API_KEY", "")
part = {"what": "tools", "name": f"search {key}", "task": 1, "agent": "", "fate": "lost"}
imports = [name for name in ("tiny_engine",) if name in sys.modules]
spool.write(
    "preflight", report={"components": [part], "engine_version": "1", "imports": imports, "given": given}
)
spool.write("ended", status="succeeded", result="", error="", traceback="")
