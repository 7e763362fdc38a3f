"""Warns twice of the same and once of something else, then fails."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

spool = tiny.begin()
for message in ("The tool Archive is missing.", "The tool Archive is missing.", f"Not kept: {tiny.CANARY}"):
    spool.write("warning", message=message)
spool.write("ended", status="failed", result="", error="ToolError: nothing found", traceback="")
