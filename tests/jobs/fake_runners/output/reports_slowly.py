"""Reports two megabytes within a few seconds with the real reporter, and succeeds."""

import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

from forkline_runner import program
from forkline_runner.reporting import Reporter

with open("marks", "a") as marks:
    marks.write(f"{tiny.FOLDER.name}\n")
reporter = Reporter(tiny.load_spool().Spool(tiny.FOLDER), tiny.FOLDER)
program.listen_for_signals(lambda: None, lambda: None)
try:
    reporter.write("started", pid=os.getpid(), engine="tiny", engine_version="1", python_version="3")
    for _ in range(100):
        reporter.write("text", text="word " * 4_000, agent="Writer")
        time.sleep(0.03)
    reporter.end("succeeded", result="all done")
except KeyboardInterrupt:
    reporter.end("cancelled")
    sys.exit(130)
