"""A project, its location and its checkpoints, for the tests of the fork's pages."""

import json
import uuid
from pathlib import Path
from typing import Any

from tests.forms.samples import task
from viewer.importing import import_location
from viewer.models import Checkpoint, Location, Project

SECRET = "sk-canary0123456789abcdefghij"
CREW: dict[str, Any] = {
    "entity_type": "crew",
    "id": "11111111-1111-4111-8111-111111111111",
    "name": "news",
    "tasks": [task(1, "The research"), task(2, {"raw": "{}", "json_dict": {"holds": True}}), task(3)],
    "checkpoint_inputs": {"topic": "AI", "year": 2026, "api_key": SECRET},
    "checkpoint_kickoff_event_id": "kickoff",
}


def made_location(folder: Path) -> Location:
    """A location in a confirmed project that has a crew, a flow and an environment's Python."""
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "python").symlink_to("/bin/sh")
    (folder / "crew.py").write_text("from crewai import Crew\ndef build() -> Crew: ...\n")
    (folder / "flow.py").write_text("from crewai import Flow\nclass Desk(Flow): ...\n")
    (folder / "cp").mkdir()
    project = Project(folder=str(folder))
    project.change(
        interpreter=str(folder / ".venv/bin/python"),
        environment_file="",
        entry_points=["crew:build", "flow:Desk"],
    )
    project.confirm(None)
    return Location.objects.create(path=str(folder / "cp"), provider=Location.Provider.JSON, project=project)


def stored(location: Location, entity: dict[str, Any]) -> Checkpoint:
    """A checkpoint of this root entity, as the engine writes it, imported."""
    kickoff = {"type": "crew_kickoff_started", "event_id": "kickoff"}
    body = {
        "crewai_version": "1.15.30",
        "parent_id": None,
        "branch": "main",
        "trigger": "task_completed",
        "entities": [entity],
        "event_record": {"nodes": {"kickoff": {"event": kickoff}}},
    }
    branch = Path(location.path) / "main"
    branch.mkdir(exist_ok=True)
    name = f"20261120T23282{len(list(branch.iterdir()))}_{uuid.uuid4().hex[:8]}"
    (branch / f"{name}_p-none.json").write_text(json.dumps(body))
    import_location(location)
    return Checkpoint.objects.get(checkpoint_id=name)
