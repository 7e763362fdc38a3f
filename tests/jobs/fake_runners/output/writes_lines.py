"""Appends the file ``lines`` of its project to its spool."""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

spool = tiny.begin()
events = os.open(tiny.FOLDER / "events.jsonl", os.O_WRONLY | os.O_APPEND)
os.write(events, Path("lines").read_bytes())
# The last line of a spool ends it.
spool._seq = 10_000
spool.write("ended", status="succeeded", result="in spite of them", error="", traceback="")
