"""Replaces or closes its own folder, or a file in it, as the file ``change`` says. Goes on, or exits."""

import os
import time
from pathlib import Path

import tiny

how, after = Path("change").read_text().split()
spool = tiny.begin()
spool.write("task_started", task="a", position=1, description="Task a", agent="Writer")
tiny.wait_for("read")
folder = tiny.FOLDER
if how in ("file", "link", "pipe"):
    folder.rename(folder.with_name(f"moved-{folder.name}"))
if how == "file":
    folder.write_text("mine")
elif how == "link":
    folder.symlink_to(Path("target").resolve())
elif how == "pipe":
    os.mkfifo(folder)
elif how == "closed":
    folder.chmod(0)
elif how == "spool":
    (folder / "events.jsonl").chmod(0)
elif how == "lock":
    (folder / "follower.lock").unlink()
    (folder / "follower.lock").symlink_to("follower.lock")
elif how == "stop":
    (folder / "stop").mkdir()
while after == "on":
    time.sleep(0.1)
