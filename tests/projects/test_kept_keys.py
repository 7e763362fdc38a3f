"""An admin of all locations of a project chooses which of its keys stay with Forkline."""

import re
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from tests.terminal import Terminal
from viewer.models import Location, Project

KEY = "sk-proj-real_key_0123456789abcdef"
ADDRESS = "https://gateway.example/v1"


@pytest.fixture
def project(crew_location: Location, tmp_path: Path) -> Project:
    """Return the project of the location, with keys in its environment file."""
    file = tmp_path / "keys.env"
    file.write_text(f"OPENAI_API_KEY={KEY}\nOPENAI_BASE_URL={ADDRESS}\nANTHROPIC_API_KEY={KEY}x\n")
    crew_location.project = Project.objects.create(
        folder=str(tmp_path), interpreter="/usr/bin/python3", environment_file=str(file)
    )
    crew_location.save()
    return crew_location.project


def test_the_page_saves_the_addresses_that_it_shows(
    runner: Client, crew_location: Location, project: Project
) -> None:
    page = runner.get(reverse("project", args=[crew_location.uid])).content.decode()
    assert f"OPENAI_API_KEY {ADDRESS}" in page and "ANTHROPIC_API_KEY https://api.anthropic.com" in page
    assert KEY not in page
    address = reverse("project-keys", args=[crew_location.uid])
    assert runner.post(address, {"keys": [f"OPENAI_API_KEY {ADDRESS}"]}).status_code == 302
    project.refresh_from_db()
    assert project.kept_keys == {"OPENAI_API_KEY": ADDRESS}
    for other in ("OPENAI_API_KEY https://evil.example", "PATH /usr/bin", ""):
        runner.post(address, {"keys": [other]})
        project.refresh_from_db()
        assert project.kept_keys == {"OPENAI_API_KEY": ADDRESS}
    # The address has changed since the page was shown.
    with open(project.environment_file, "a") as file:
        file.write("OPENAI_BASE_URL=https://other.example\n")
    page = runner.get(reverse("project", args=[crew_location.uid])).content.decode()
    # A form that is saved as it is shown releases no key.
    assert [f'value="OPENAI_API_KEY {one}"' in page for one in (ADDRESS, "https://other.example")] == [
        True
    ] * 2
    assert page.count(" checked>") >= 1 and f'value="OPENAI_API_KEY {ADDRESS}" checked' in page
    runner.post(address, {"keys": [f"OPENAI_API_KEY {ADDRESS}", "OPENAI_API_KEY https://other.example"]})
    project.refresh_from_db()
    assert project.kept_keys == {"OPENAI_API_KEY": "https://other.example"}
    runner.post(address)
    project.refresh_from_db()
    assert project.kept_keys == {}


def test_the_terminal_chooses_keys(terminal: Terminal, crew_location: Location, project: Project) -> None:
    document = terminal.document("keys", crew_location.path, "--keep", "OPENAI_API_KEY")
    project.refresh_from_db()
    assert document["kept_keys"] == project.kept_keys == {"OPENAI_API_KEY": ADDRESS}
    both = {"ANTHROPIC_API_KEY": "https://api.anthropic.com", "OPENAI_API_KEY": ADDRESS}
    # The other one is not released.
    document = terminal.document("keys", crew_location.path, "--keep", "ANTHROPIC_API_KEY")
    assert document["kept_keys"] == both
    assert "ANTHROPIC_API_KEY" in str(terminal.refused("keys", crew_location.path, "--keep", "PATH"))
    text = terminal.text("keys", crew_location.path)
    assert re.search(r"\b(1 place|([02-9]|\d\d+) places) with a key\.\n", text), text
    terminal.document("keys", crew_location.path, "--keep-none")
    project.refresh_from_db()
    assert project.kept_keys == {}


def test_a_form_that_is_older_than_a_choice_releases_no_key(
    runner: Client, crew_location: Location, project: Project
) -> None:
    page = runner.get(reverse("project", args=[crew_location.uid])).content.decode()
    form = page.partition('id="keys"')[2]
    seen = form.partition('name="seen" value="')[2].partition('"')[0]
    project.change_kept_keys({"OPENAI_API_KEY": ADDRESS})
    sent = {"seen": seen, "keys": ["ANTHROPIC_API_KEY https://api.anthropic.com"]}
    shown = runner.post(reverse("project-keys", args=[crew_location.uid]), sent, follow=True)
    assert "has changed meanwhile" in shown.content.decode()
    project.refresh_from_db()
    assert project.kept_keys == {"OPENAI_API_KEY": ADDRESS}
