"""A new run: writes a checkpoint when the file ``write`` exists, and ends when ``go`` does."""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import tiny

spool = tiny.begin()
tiny.wait_for("write")
name = "20261121T001329_8069945e"
path = Path(tiny.request()["location"]["path"], "main", f"{name}_p-none.json")
path.parent.mkdir(parents=True, exist_ok=True)
event = {"type": "crew_kickoff_started", "event_id": "kickoff-of-this-run"}
crew = {"entity_type": "crew", "name": "press", "tasks": [], "checkpoint_kickoff_event_id": event["event_id"]}
body = {
    "crewai_version": "1.15.30",
    "branch": "main",
    "trigger": "task_completed",
    "entities": [crew],
    "event_record": {"nodes": {event["event_id"]: {"event": event}}},
}
path.write_text(json.dumps(body))
spool.write("checkpoint", id=name, parent="", path=str(path), branch="main", trigger="task_completed")
tiny.wait_for("go")
spool.write("ended", status="succeeded", result="done", error="", traceback="")
