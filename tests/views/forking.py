"""A project, its location and its checkpoints, for tests of the launch forms."""

import json
import re
import uuid
from pathlib import Path
from typing import Any

from django.test import Client
from django.urls import reverse

from tests.forms.samples import task
from viewer.host.jobs.preflight import fingerprint_of
from viewer.host.locations.importing import import_location
from viewer.models import Checkpoint, Location, PreflightCheck, Project

SECRET = "sk-canary0123456789abcdefghij"
CREW: dict[str, Any] = {
    "entity_type": "crew",
    "id": "11111111-1111-4111-8111-111111111111",
    "name": "news",
    "tasks": [task(1, "The research"), task(2, {"raw": "{}", "json_dict": {"holds": True}}), task(3)],
    "checkpoint_inputs": {"topic": "AI", "year": 2026, "api_key": SECRET},
    "checkpoint_kickoff_event_id": "kickoff",
}
FLOW: dict[str, Any] = {
    "entity_type": "flow",
    "name": "Desk",
    "checkpoint_state": {"id": "22222222-2222-4222-8222-222222222222", "topic": "AI", "n": 1},
    "checkpoint_completed_methods": ["outline"],
    "checkpoint_method_counts": {"outline": 1},
}


def create_location(folder: Path) -> Location:
    """Return a location in a confirmed project with a crew, a flow and an environment's Python."""
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
    return Location.objects.create(
        path=str(folder / "cp"), store_kind=Location.StoreKind.JSON, project=project
    )


def stored(
    location: Location, entity: dict[str, Any], events: dict[str, dict[str, Any]] | None = None
) -> Checkpoint:
    """Import a checkpoint with this root entity and further events, as the engine writes it."""
    kickoff = {"type": "crew_kickoff_started", "event_id": "kickoff"}
    body = {
        "crewai_version": "1.15.30",
        "parent_id": None,
        "branch": "main",
        "trigger": "task_completed",
        "entities": [entity],
        "event_record": {"nodes": {"kickoff": {"event": kickoff}, **(events or {})}},
    }
    branch = Path(location.path) / "main"
    branch.mkdir(exist_ok=True)
    name = f"20261120T23282{len(list(branch.iterdir()))}_{uuid.uuid4().hex[:8]}"
    (branch / f"{name}_p-none.json").write_text(json.dumps(body))
    import_location(location)
    return Checkpoint.objects.get(checkpoint_id=name)


def checked(
    checkpoint: Checkpoint, entry_point: str = "crew:build", project: Project | None = None, **report: Any
) -> PreflightCheck:
    """Return a finished preflight check of a run with this report, which is empty by default."""
    project = project or checkpoint.location.project
    assert project
    fingerprint = fingerprint_of(checkpoint, project, entry_point)
    check, _is_new = PreflightCheck.objects.get_or_create(
        fingerprint=fingerprint,
        defaults={"checkpoint": checkpoint, "project": project, "entry_point": entry_point},
    )
    check.finish({"engine_version": "1.15.30", "python_version": "3.11.7", **report})
    return check


def checked_new_run(project: Project, entry_point: str, **report: Any) -> PreflightCheck:
    """Return a finished preflight check of a crew's new run that writes files."""
    check = PreflightCheck.objects.create(
        project=project,
        entry_point=entry_point,
        entity="crew",
        store_kind="json",
        fingerprint=fingerprint_of(None, project, entry_point, "crew", "json"),
    )
    check.finish({"engine_version": "1.15.30", "python_version": "3.11.7", **report})
    return check


def page(checkpoint: Checkpoint, name: str = "fork") -> str:
    """Return the address of the checkpoint's fork or resume page."""
    return reverse(name, args=[checkpoint.pk])


def is_startable(text: str) -> bool:
    """Return whether the page's Start button is enabled."""
    button = re.search(r'<button[^>]*id="start-button"[^>]*>', text)
    assert button
    return "disabled" not in button[0]


def filled(
    client: Client, checkpoint: Checkpoint, name: str = "fork", query: str = "", **changes: Any
) -> dict[str, Any]:
    """Return what a browser would send for the page, with these changes; ``a__b`` means ``a:b``.

    Losses are accepted.
    """
    text = client.get(page(checkpoint, name) + query).content.decode()
    text = re.sub(r'<input(?![^>]* checked)[^>]* type="radio"[^>]*>', "", text)
    found = dict(re.findall(r'<input[^>]* name="([^"]+)"[^>]* value="([^"]*)"', text))
    found |= dict(re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>\n([^<]*)</textarea>', text))
    found = {key: value.replace("&quot;", '"') for key, value in found.items()}
    found.pop("csrfmiddlewaretoken", None)
    chosen = re.search(r'<option selected[^>]*>([^<]+)</option>|<option value="" selected', text)
    found["entry_point"] = (chosen[1] or "") if chosen else ""
    for choice in ("again", "keep", "shown", "checkpoint_events", "dry_run"):
        found.pop(choice, None)
    if 'name="check"' in text:
        # The page sends this for the preflight check when it loads.
        shown = client.post(page(checkpoint, f"{name}-plan"), found).content.decode()
        found |= dict(re.findall(r'<input[^>]* name="(accepted)"[^>]* value="([^"]*)"', shown))
    return found | {key.replace("__", ":"): value for key, value in changes.items()}
