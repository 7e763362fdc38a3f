"""Crews and flows that files declare, in the project form, the form of a new run and the terminal."""

import shutil
import sys
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from tests.engine_runs.runs import DESK, LINE
from tests.terminal import Terminal
from tests.views.forking import CREW, filled, page, stored
from viewer.models import Job, Location, Project


@pytest.fixture
def declared(location: Location) -> Location:
    """Return a location whose confirmed project is declared in a crew.jsonc."""
    project = Project.objects.get()
    folder = Path(project.folder)
    (folder / "crew.py").unlink()
    (folder / "flow.py").unlink()
    shutil.copytree(DESK, folder, dirs_exist_ok=True)
    project.entry_points = ["crew.jsonc"]
    project.save()
    return location


def test_the_projects_form_offers_the_file(runner: Client, declared: Location) -> None:
    answer = runner.get(reverse("project", args=[declared.uid]))
    assert 'value="crew.jsonc"' in answer.content.decode()


def test_the_new_run_form_shows_the_files_inputs_and_starts_the_run(
    runner: Client, declared: Location
) -> None:
    address = f"{reverse('new-run', args=[declared.uid])}?entry_point=crew.jsonc"
    answer = runner.get(address)
    form = answer.context["form"]
    assert [one.value.name for one in form.inputs.fields] == ["audience", "since", "topic", "year"]
    assert form.inputs.fields[3].value.stored == 2026
    assert "crew.jsonc" in answer.content.decode()


def test_the_file_of_a_declared_crew_is_proposed_for_its_checkpoint(
    runner: Client, declared: Location
) -> None:
    checkpoint = stored(declared, {**CREW, "name": "desk"})
    sent = filled(runner, checkpoint)
    assert sent["entry_point"] == "crew.jsonc"
    assert runner.get(page(checkpoint)).status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("folder", "entry_point", "entity"), [(DESK, "crew.jsonc", "crew"), (LINE, "src/line/flow.yaml", "flow")]
)
def test_the_terminal_starts_a_declared_crew(
    terminal: Terminal, tmp_path: Path, folder: Path, entry_point: str, entity: str
) -> None:
    project = ("--project", str(folder), "--python", sys.executable)
    chosen = ("--entrypoint", entry_point, "--input", "year=1999")
    assert terminal.document("run", tmp_path / "new", *project, *chosen)["status"] == "queued"
    request = Job.objects.get().request
    assert (request["entity"], request["entry_point"]) == (entity, entry_point)
    assert (request["name"], request["inputs"]) == (entry_point, {"year": 1999})
