"""Write targets of new runs."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from viewer.host.locations.adding import open_location, open_write_target, write_target_at, write_target_of
from viewer.host.locations.importing import import_location
from viewer.host_requests import UnknownLocation
from viewer.models import Location, Project

pytestmark = pytest.mark.django_db


@pytest.fixture
def project(tmp_path: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project.objects.create(folder=str(folder))


def test_a_new_folder_is_created_when_it_is_opened(project: Project) -> None:
    target = write_target_at("runs/new", project, [Path(project.folder)])
    folder = Path(project.folder, "runs/new")
    assert (target.path, target.store_kind) == (str(folder), "json")
    assert not folder.exists()
    assert not Location.objects.exists()
    location = open_write_target(target, project)
    assert folder.is_dir()
    assert (location.project, location.store_kind) == (project, "json")
    assert open_write_target(target, project) == location
    assert import_location(location).read_error is None


def test_a_new_sqlite_file_is_empty_until_its_first_checkpoint(project: Project) -> None:
    target = write_target_at("stores/runs.db", project)
    location = open_write_target(target, project)
    assert location.store_kind == "sqlite"
    assert Path(location.path).read_bytes() == b""
    assert "until its first checkpoint is written" in str(import_location(location).read_error)
    assert write_target_at("stores/runs.db", project) == target


def test_existing_files_are_not_changed(project: Project) -> None:
    folder = Path(project.folder, "mine")
    folder.mkdir()
    (folder / "notes.json").write_text("{}")
    open_write_target(write_target_at("mine", project), project)
    assert (folder / "notes.json").read_text() == "{}"
    Path(project.folder, "notes.txt").write_text("not a store")
    with closing(sqlite3.connect(Path(project.folder, "theirs.db"))) as connection, connection:
        connection.execute("CREATE TABLE customers (name)")
    for text in ("notes.txt", "notes.txt/below", "theirs.db"):
        with pytest.raises(UnknownLocation):
            write_target_at(text, project)


def test_a_location_that_became_a_link_is_not_a_write_target(project: Project, tmp_path: Path) -> None:
    location = open_write_target(write_target_at("mine", project), project)
    assert write_target_of(location, project).path == location.path
    Path(location.path).rmdir()
    (tmp_path / "elsewhere").mkdir()
    Path(location.path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnknownLocation, match="now leads to"):
        write_target_of(location, project)
    assert Location.objects.count() == 1


def test_paths_outside_the_roots_and_locations_of_other_projects_are_refused(
    project: Project, tmp_path: Path
) -> None:
    roots = [Path(project.folder)]
    Path(project.folder, "out").symlink_to(tmp_path)
    for text in ("../beside", "/etc/forkline", "out/beside", "a\0b", "~no-such-account/runs"):
        with pytest.raises(UnknownLocation):
            write_target_at(text, project, roots)
    theirs = Path(project.folder, "theirs")
    theirs.mkdir()
    location = open_location(theirs)
    location.project = Project.objects.create(folder="/elsewhere")
    location.save()
    with pytest.raises(UnknownLocation, match="another project"):
        write_target_at("theirs", project, roots)
