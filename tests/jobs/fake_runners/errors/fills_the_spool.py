"""Reports with the real reporter to a spool that is full from an event on, whose kind ``full_at`` names."""

import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

from forkline_runner import program
from forkline_runner.reporting import Reporter, short_texts

with open("marks", "a") as marks:
    marks.write(f"{tiny.FOLDER.name}\n")
full_at = Path("full_at").read_text()
spool = tiny.load_spool().Spool(tiny.FOLDER, shorten=short_texts)
reporter = Reporter(spool, tiny.FOLDER)
program.listen_for_signals(lambda: None, lambda: None)
try:
    for kind in ("started", "task_started", "task_completed", "ended"):
        if kind == full_at:
            # Each write to this device fails as on a full disk.
            os.dup2(os.open("/dev/full", os.O_WRONLY), spool._file)
        if kind == "ended":
            reporter.end("succeeded", result="all done " * 10_000)
            sys.exit(0)
        reporter.write(kind, pid=os.getpid(), task="a", position=1)
        # The signal arrives in the main thread.
        time.sleep(0 if reporter.has_ended is False else 60)
except KeyboardInterrupt:
    Path("interrupted").touch()
    reporter.end("cancelled")
    sys.exit(130)
