"""Fails as a crew does whose tool raises, with a key in the error."""

import sys
import traceback
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

spool = tiny.begin()
print("OPENAI_API_KEY=sk-tiny0123456789abcdefABCDEF is what I was given")
try:
    raise RuntimeError("the tool has no file, key sk-tiny0123456789abcdefABCDEF")
except RuntimeError as error:
    spool.write("ended", status="failed", result="", error=str(error), traceback=traceback.format_exc())
    raise
