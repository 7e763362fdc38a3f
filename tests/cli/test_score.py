"""``forkline score``: a function of the project is called by the runner."""

import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from tests.views.forking import CREW, create_location, stored
from viewer.cli.running import run_here
from viewer.models import Checkpoint, Job, Location
from viewer.presentation.comparison_sides import reference_to
from viewer.records.accounts import teammate

JUDGE = """
def length(checkpoint):
    return sum(len(task["output"] or "") for task in checkpoint["tasks"]) / 4
def is_done(checkpoint):
    return all(task["done"] for task in checkpoint["tasks"])
def title(checkpoint):
    print("scoring")
    return "news: " + checkpoint["inputs"]["topic"]
def secret(checkpoint):
    return str(checkpoint["inputs"]["api_key"])
def broken(checkpoint):
    raise LookupError("no such task")
def listed(checkpoint):
    return [1]
"""


@pytest.fixture
def location(transactional_db: None, tmp_path: Path) -> Location:
    """A location in a confirmed project with functions that score, and this Python."""
    location = create_location((tmp_path / "newsroom").resolve())
    assert location.project
    folder = Path(location.project.folder)
    (folder / "judge.py").write_text(JUDGE)
    project = location.project
    project.change(interpreter=sys.executable, environment_file="", entry_points=["crew:build"])
    project.confirm(None)
    return location


def scored(checkpoint: Checkpoint, function: str) -> tuple[dict[str, Any], int]:
    """The document of a score, and the exit status."""
    out = StringIO()
    target = f"{checkpoint.location.path}#{checkpoint.checkpoint_id}"
    try:
        call_command("checkpoints", "score", target, function, "--wait", "--json", stdout=out)
    except SystemExit as error:
        return json.loads(out.getvalue()), int(error.code or 0)
    return json.loads(out.getvalue()), 0


def test_a_score_is_a_number_a_boolean_or_a_text(location: Location) -> None:
    checkpoint = stored(location, CREW)
    found = {name: scored(checkpoint, f"judge:{name}") for name in ("length", "is_done", "title", "secret")}
    assert {name: document["error"] for name, (document, _status) in found.items()} == dict.fromkeys(
        found, ""
    )
    assert found["is_done"][0]["score"] is False and found["title"][0]["score"] == "news: AI"
    assert isinstance(found["length"][0]["score"], float)
    # The function gets the redacted contents.
    assert found["secret"][0]["score"] == "[redacted]"
    assert all(status == 0 for _document, status in found.values())
    broken, status = scored(checkpoint, "judge:broken")
    assert status == 1 and "no such task" in broken["error"] and broken["score"] is None
    missing, status = scored(checkpoint, "judge:lenght")
    assert status == 1 and missing["error"] == "judge:lenght does not exist: the module judge has no lenght."
    missing, status = scored(checkpoint, "jugde:length")
    assert status == 1 and "jugde:length cannot be imported: there is no module jugde" in missing["error"]
    assert "entry point" not in missing["error"]
    listed, status = scored(checkpoint, "judge:listed")
    assert status == 1 and "A score is a number" in listed["error"]


def test_what_is_not_the_name_of_a_function_is_refused(location: Location) -> None:
    checkpoint = stored(location, CREW)
    for name in ("judge", "judge:length()", "os.path", "/etc/passwd:x", "judge:x" * 100):
        document, status = scored(checkpoint, name)
        assert (status, document["status"], document["score"]) == (1, "refused", None)
    assert not Job.objects.exists()


def test_a_comparison_shows_scores_and_names_the_best(location: Location) -> None:
    first, second = stored(location, CREW), stored(location, {**CREW, "tasks": CREW["tasks"][:1]})
    client = Client()
    client.force_login(teammate("runner", "run"))
    sides = {"a": str(reference_to(first)), "b": [str(reference_to(second))]}
    sent = {**sides, "function": "judge:length", "key": str(uuid4())}
    for _twice in range(2):
        assert client.post(reverse("compare-score"), sent).status_code == 302
    assert Job.objects.filter(kind="score").count() == 2
    html = client.get(reverse("compare"), sides).content.decode()
    assert "2 scores are being computed" in html and "every 4s" in html
    for job in Job.objects.all():
        run_here(job)
    html = client.get(reverse("compare"), sides).content.decode()
    assert "Score · judge:length" in html and ", best" in html and "every 4s" not in html
    refused = client.post(reverse("compare-score"), {**sent, "function": "judge"}, follow=True)
    assert "Name the function as module:function." in refused.content.decode()
    assert 'name="function" value="judge" ' in refused.content.decode(), "It can be corrected."
    teammate("runner", "view")
    assert client.post(reverse("compare-score"), sent).status_code == 403
    assert "Score all sides" not in client.get(reverse("compare"), sides).content.decode()
