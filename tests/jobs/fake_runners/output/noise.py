"""Prints noise, and leaves invalid lines and an incomplete line in its spool."""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

spool = tiny.begin()
print("not json {", "\x00\x1b[31mred", "é" * 3)
os.write(1, b"\xff\xfe bytes that are not text\n")
events = os.open(tiny.FOLDER / "events.jsonl", os.O_WRONLY | os.O_APPEND)
for noise in (
    b"hello\n",
    b"[1, 2]\n",
    b'{"seq": "x"}\n',
    b'{"seq": -1, "at": 1, "kind": "text", "data": {}}\n',
    b"\n",
):
    os.write(events, noise)
spool.write("text", text="half a pair \ud800, a number", agent="", number=float("nan"))
spool.write("text", text="x" * 400_000, agent="")
spool.write("ended", status="succeeded", result="in spite of the \udfff noise", error="", traceback="")
os.write(events, b'{"seq": 99, "at": 1, "kind": "text", "da')
