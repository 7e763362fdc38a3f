"""Reports a megabyte once the file ``go`` exists in the project's folder, and succeeds."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

spool = tiny.begin()
tiny.wait_for("go")
for _ in range(50):
    spool.write("text", text="word " * 4_000, agent="Writer")
spool.write("ended", status="succeeded", result="all done", error="", traceback="")
