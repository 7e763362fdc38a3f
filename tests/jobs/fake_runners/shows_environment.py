"""Writes down its environment, folder, arguments and open files."""

import json
import os
import sys
from pathlib import Path

import tiny

spool = tiny.begin()
report = {"environment": dict(os.environ), "folder": str(Path.cwd()), "session": os.getsid(0) == os.getpid()}
report |= {"arguments": sys.argv, "name": __name__, "path": sys.path, "is_warm": "tiny_engine" in sys.modules}
report["open"] = sorted(str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.exists())
with open("reported.json", "w") as file:
    json.dump({**report, "request": tiny.request()}, file)
spool.write("ended", status="succeeded", result="", error="", traceback="")
