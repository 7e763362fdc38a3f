"""Copies a checkpoint for the engine, and is killed before it deletes the copy."""

import os
import signal
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

spool = tiny.begin()
scratch = tiny.FOLDER / tiny.load_spool().SCRATCH
scratch.mkdir()
(scratch / "a_p-none.json").write_text(tiny.CANARY)
print(tiny.CANARY, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
