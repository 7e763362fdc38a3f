"""Writes what a fork starts from as the first checkpoint of its branch. A preflight check finds nothing."""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

spool, request = tiny.begin(), tiny.request()
if request["kind"] == "preflight":
    spool.write("preflight", report={"components": [], "engine_version": "1"})
else:
    parent, branch, name = request["checkpoint"]["id"], request["branch"], "20261127T001329_8069945e"
    body = json.loads(Path(request["checkpoint"]["source"]).read_text())
    path = Path(request["location"]["path"], branch, f"{name}_p-{parent}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**body, "branch": branch, "parent_id": parent}))
    spool.write("checkpoint", id=name, parent=parent, path=str(path), branch=branch, trigger="task_completed")
spool.write("ended", status="succeeded", result="done", error="", traceback="")
