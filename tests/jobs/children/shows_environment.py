"""Tells what it was given to live with."""

import json
import os
from pathlib import Path

import tiny

spool = tiny.begin()
told = {"environment": dict(os.environ), "folder": str(Path.cwd()), "session": os.getsid(0) == os.getpid()}
with open("told.json", "w") as file:
    json.dump({**told, "request": tiny.request()}, file)
spool.write("ended", status="succeeded", result="", error="", traceback="")
