"""Writes a flow of three methods, with a checkpoint after each; ends with the status in the file ``end``."""

import json
import shutil
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

STORE = Path(__file__).resolve().parents[3] / "recorded_stores" / "1.14.7" / "flow"

spool = tiny.begin()
for source in sorted(STORE.rglob("*.json")):
    path = Path(tiny.request()["location"]["path"], source.relative_to(STORE))
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, path)
    told = json.loads(path.read_text())
    name = path.stem.partition("_p-")[0]
    spool.write("checkpoint", id=name, parent=told["parent_id"] or "", path=str(path), branch="main")
status = Path("end").read_text()
spool.write("ended", status=status, result="", error="", traceback="")
