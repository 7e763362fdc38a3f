"""Copies a checkpoint as the engine restores it, and is killed before it is done with the copy."""

import os
import signal

import tiny

spool = tiny.begin()
scratch = tiny.FOLDER / tiny.load_spool().SCRATCH
scratch.mkdir()
(scratch / "a_p-none.json").write_text(tiny.CANARY)
print(tiny.CANARY, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
