"""The counter's runner: counts on from a checkpoint, one step for all units, and reports as it goes."""

import importlib.util
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SPOOL = Path(__file__).resolve().parents[3] / "viewer" / "host" / "jobs" / "spool.py"


def main(folder: Path) -> int:
    """Run the job of this folder."""
    request = json.loads((folder / "request.json").read_text())
    spool = spool_module().Spool(folder)
    spool.write("started", pid=os.getpid(), engine="Counter", engine_version="1", python_version="3")
    if request["kind"] in ("preflight", "effects"):
        spool.write("preflight", report={"engine_version": "1", "effects": [], "is_complete": True})
        return ended(spool, "")
    body = json.loads(Path(request["checkpoint"]["source"]).read_text())
    body["state"].update(request["state"] or {})
    for unit, output in request["outputs"].items():
        body["units"][unit] = output["json"]["count"]
    for step in request["steps"]:
        if step["action"] == "again":
            body["units"][step["task"]] = 0
    number = 0
    while pending := [unit for unit, count in body["units"].items() if count < body["limit"]]:
        number += 1
        for unit in pending:
            spool.write("count_started", count=unit)
        for unit in pending:
            body["units"][unit] += body["state"]["by"]
            if body["units"][unit] >= body["limit"]:
                spool.write("count_completed", count=unit)
        write(spool, request, body, f"{request['branch']}-{number}")
    return ended(spool, f"{sum(body['units'].values())} {body['state']['label']}")


def write(spool: Any, request: dict[str, Any], body: dict[str, Any], checkpoint_id: str) -> None:
    """Write a checkpoint and report it."""
    body |= {
        "parent": body["id"],
        "id": checkpoint_id,
        "at": datetime.now(UTC).isoformat(),
        "trigger": "step",
    }
    path = Path(request["location"]["path"], request["branch"], f"{checkpoint_id}.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(body))
    spool.write(
        "checkpoint",
        id=checkpoint_id,
        parent=body["parent"],
        path=str(path),
        branch=request["branch"],
        trigger="step",
    )


def ended(spool: Any, result: str) -> int:
    """Report the end."""
    spool.write("ended", status="succeeded", result=result, error="", traceback="")
    return 0


def spool_module() -> Any:
    """Return viewer/host/jobs/spool.py, loaded by its path."""
    spec = importlib.util.spec_from_file_location("spool", SPOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
