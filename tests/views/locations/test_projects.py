"""The project page: proposals, refusals and confirmation."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from viewer.models import Job, Location, Project
from viewer.records.accounts import teammate

pytestmark = pytest.mark.django_db
TICKED = 'value="crew:build" id="id_entry_points_0" checked'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a project folder with an environment and checkpoints."""
    folder = tmp_path / "newsroom"
    (folder / ".checkpoints").mkdir(parents=True)
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "python").symlink_to("/bin/sh")
    (folder / "pyproject.toml").write_text("[project]\nname = 'newsroom'\n")
    (folder / "crew.py").write_text("from crewai import Crew\ndef build() -> Crew: ...\n")
    (folder / ".env").write_text("OPENAI_API_KEY=sk-canary-in-the-environment-file\n")
    return folder.resolve()


@pytest.fixture
def location(folder: Path) -> Location:
    return Location.objects.create(path=str(folder / ".checkpoints"), store_kind=Location.StoreKind.JSON)


@pytest.fixture
def person() -> User:
    return teammate("ada", "run")


@pytest.fixture
def page(client: Client, person: User, location: Location) -> str:
    client.force_login(person)
    return reverse("project", args=[location.uid])


def filled(project: Path, /, **changes: object) -> dict[str, object]:
    values: dict[str, object] = {
        "folder": str(project),
        "interpreter": str(project / ".venv/bin/python"),
        "environment_file": "",
        "entry_points": ["crew:build"],
        "other_entry_points": "",
    }
    return {**values, **changes}


def test_the_folder_around_the_location_is_proposed_and_nothing_is_stored(
    client: Client, page: str, folder: Path
) -> None:
    text = client.get(page).content.decode()
    assert f'value="{folder}"' in text
    assert f'value="{folder}/.venv/bin/python"' in text
    assert f'value="{folder}/.env"' in text
    assert "crew:build" in text
    assert "sk-canary" not in text
    assert not Project.objects.exists()


def test_confirming_stores_the_project_and_the_user(
    client: Client, page: str, folder: Path, location: Location, person: User
) -> None:
    answer = client.post(page, filled(folder, other_entry_points="news.flow:Desk\n"))
    location.refresh_from_db()
    project = location.project
    assert answer.status_code == 302 and answer["Location"] == location.get_absolute_url()
    assert project is not None and project.is_confirmed and project.confirmed_by == person
    assert project.entry_points == ["crew:build", "news.flow:Desk"]
    assert Path(project.interpreter).is_symlink()
    assert not Job.objects.exists()


def test_a_folder_is_one_project_for_all_its_locations(client: Client, page: str, folder: Path) -> None:
    client.post(page, filled(folder))
    (folder / "more").mkdir()
    other = Location.objects.create(path=str(folder / "more"), store_kind=Location.StoreKind.JSON)
    other_page = reverse("project", args=[other.uid])
    text = client.get(other_page).content.decode()
    assert str(folder / ".checkpoints") in text
    client.post(other_page, filled(folder))
    other.refresh_from_db()
    assert other.project == Project.objects.get()


def test_a_project_has_to_be_confirmed_for_each_location(client: Client, page: str, folder: Path) -> None:
    client.post(page, filled(folder))
    (folder / "more").mkdir()
    other = Location.objects.create(path=str(folder / "more"), store_kind=Location.StoreKind.JSON)
    client.get(reverse("project", args=[other.uid]))
    other.refresh_from_db()
    assert other.project is None


def test_a_changed_project_is_not_confirmed_any_more(folder: Path, person: User) -> None:
    project = Project(folder=str(folder))
    values = {"interpreter": "/bin/python", "environment_file": "", "entry_points": ["a:B"]}
    project.change(**values)  # type: ignore[arg-type]
    project.confirm(person)
    project.change(**values)  # type: ignore[arg-type]
    assert project.is_confirmed
    project.change(interpreter="/bin/python", environment_file="", entry_points=["a:C"])
    assert not Project.objects.get().is_confirmed


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("folder", "newsroom", "Enter an absolute path"),
        ("folder", "/", "outside the folders"),
        ("folder", "/proc/self/root/etc", "outside the folders"),
        ("folder", "{folder}/../../../../../../etc", "outside the folders"),
        ("folder", "{folder}/gone", "This folder does not exist"),
        ("folder", "{folder}/outside", "outside the folders"),
        ("folder", "{folder}/unencodable", "This path cannot be opened"),
        ("folder", "{folder}\0", "Null characters are not allowed"),
        ("interpreter", ".venv/bin/python", "Enter an absolute path"),
        ("interpreter", "{folder}/.venv/bin/gone", "This file does not exist"),
        ("interpreter", "{folder}/crew.py", "not executable"),
        ("interpreter", "/bin/sh", "This must be a Python"),
        ("environment_file", ".env", "Enter an absolute path"),
        ("environment_file", "/etc/hostname", "outside the folders"),
        ("environment_file", "{folder}/gone.env", "This file does not exist"),
        ("other_entry_points", "import os", "is not an entry point"),
        ("other_entry_points", "../crew:build", "is not an entry point"),
        ("other_entry_points", "crew", "is not an entry point"),
    ],
)
def test_an_invalid_project_is_refused_with_a_field_error(
    client: Client, page: str, folder: Path, name: str, value: str, text: str
) -> None:
    (folder / "outside").symlink_to("/etc")
    (named := folder / "caf\udce9").mkdir()
    (folder / "unencodable").symlink_to(named)
    typed = value.format(folder=folder) if "{" in value else value
    answer = client.post(page, filled(folder, **{name: typed}))
    assert answer.status_code == 422
    assert text in answer.content.decode()
    assert not Project.objects.exists()


def test_typed_values_stay_after_a_refusal(client: Client, page: str, folder: Path) -> None:
    answer = client.post(page, filled(folder, interpreter="/nowhere/python", other_entry_points="a.b:C"))
    text = answer.content.decode()
    assert 'value="/nowhere/python"' in text
    assert "a.b:C" in text
    assert 'role="alert"' in text


@pytest.mark.parametrize(
    "address", ["https://evil.example/x", "//evil.example", "javascript:alert(1)", "\\\\evil"]
)
def test_a_forged_next_is_not_followed(
    client: Client, page: str, folder: Path, location: Location, address: str
) -> None:
    assert "evil" not in client.get(f"{page}?next={quote(address)}").content.decode()
    answer = client.post(f"{page}?next={quote(address)}", filled(folder, next=address))
    assert answer["Location"] == location.get_absolute_url()


def test_confirming_redirects_to_the_previous_page(client: Client, page: str, folder: Path) -> None:
    assert 'value="/checkpoints/3/fork/"' in client.get(f"{page}?next=/checkpoints/3/fork/").content.decode()
    answer = client.post(page, filled(folder, next="/checkpoints/3/fork/"))
    assert answer["Location"] == "/checkpoints/3/fork/"


def test_a_confirmed_project_is_shown_as_it_was_confirmed(client: Client, page: str, folder: Path) -> None:
    client.post(page, filled(folder, entry_points=[], other_entry_points="own.place:Crew"))
    text = client.get(page).content.decode()
    assert "own.place:Crew" in text
    assert 'value="crew:build"' in text and TICKED not in text
    assert "confirmed" in text


def test_a_project_in_another_folder_shows_the_entry_points_of_its_source(
    client: Client, person: User, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    location = Location.objects.create(path=str(tmp_path / "data"), store_kind=Location.StoreKind.JSON)
    client.force_login(person)
    page = reverse("project", args=[location.uid])
    client.post(page, filled(folder, entry_points=[], other_entry_points="crew:build"))
    text = client.get(page).content.decode()
    assert TICKED in text
    assert "No entry point was found" not in text


def test_script_in_a_path_is_escaped(client: Client, page: str, folder: Path) -> None:
    answer = client.post(page, filled(folder, folder='/"><script>alert(1)</script>'))
    assert b"<script>alert" not in answer.content


def test_visitors_see_and_confirm_no_project(location: Location, folder: Path) -> None:
    page = reverse("project", args=[location.uid])
    for answer in (Client().get(page), Client().post(page, filled(folder))):
        assert answer.status_code == 302 and "/login/" in answer["Location"]
    assert not Project.objects.exists()


def test_the_folders_own_statements_are_shown_as_claims(client: Client, page: str, folder: Path) -> None:
    (folder / ".venv/pyvenv.cfg").write_text("version = 3.99.1\n")
    text = client.get(page).content.decode()
    assert "Found in its folder:" in text and "Python 3.99.1" in text and "nothing was executed" in text
    assert "It links to /" in text


def test_an_interpreter_inside_the_location_is_neither_proposed_nor_confirmed(
    client: Client, page: str, folder: Path, location: Location
) -> None:
    inside = folder / ".checkpoints"
    (inside / "pyproject.toml").write_text("")
    (inside / ".venv/bin").mkdir(parents=True)
    (inside / ".venv/bin/python").symlink_to("/bin/sh")
    assert str(inside / ".venv") not in client.get(page).content.decode()
    answer = client.post(page, filled(folder, interpreter=str(inside / ".venv/bin/python")))
    assert answer.status_code == 422 and "The interpreter is in" in answer.content.decode()
    assert client.post(page, filled(inside)).status_code == 422
    assert not Project.objects.exists()


@pytest.mark.parametrize("name", ["folder", "interpreter", "environment_file"])
@pytest.mark.parametrize("text", ["x" * 300, "/x" * 600, "x\0y/python3", "~nobody-here/python3", "y" * 5000])
def test_a_path_that_no_file_can_have_is_refused(
    client: Client, page: str, folder: Path, name: str, text: str
) -> None:
    for typed in (text, f"{folder}/{text}", f"{text}/bin/python3"):
        assert client.post(page, filled(folder, **{name: typed})).status_code == 422, typed[:30]
    assert not Project.objects.exists()


def test_an_interpreter_outside_the_allowed_folders_is_flagged(
    client: Client, page: str, folder: Path, settings: Settings
) -> None:
    settings.CHECKPOINT_ROOTS = [folder]
    assert "is outside the folders" not in client.get(page).content.decode()
    settings.CHECKPOINT_ROOTS = [folder / ".checkpoints"]
    assert "is outside the allowed folders of this server" in client.get(page).content.decode()


def test_a_project_that_somebody_else_has_changed_is_not_overwritten(
    client: Client, page: str, location: Location, folder: Path
) -> None:
    client.post(page, filled(folder))
    seen = re.findall(r'name="seen" value="([^"]+)"', client.get(page).content.decode())[0]
    project = Location.objects.get(pk=location.pk).project
    assert project
    project.entry_points = ["crew:theirs"]
    project.save()
    refused = client.post(page, filled(folder) | {"seen": seen})
    text = refused.content.decode()
    assert refused.status_code == 422 and "Somebody changed this project meanwhile" in text
    project.refresh_from_db()
    assert project.entry_points == ["crew:theirs"]
    again = re.findall(r'name="seen" value="([^"]+)"', text)[0]
    assert client.post(page, filled(folder) | {"seen": again}).status_code == 302
