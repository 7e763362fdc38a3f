"""``make clean-demo`` deletes what the demo created, and nothing else."""

from pathlib import Path

import pytest

from scripts import demo_rows
from viewer.models import Job, Location, Project

pytestmark = pytest.mark.django_db(transaction=True)


def location_at(path: Path) -> Location:
    path.mkdir(parents=True)
    (path / "checkpoint.json").write_text("{}")
    return Location.objects.create(path=str(path), store_kind=Location.StoreKind.JSON)


@pytest.fixture
def demo_folder(tmp_path: Path) -> Path:
    """Return a demo folder with a location, its project and a job. Another location does not belong to it."""
    folder = tmp_path / "data-demo"
    location = location_at(folder / "newsroom/article")
    Project.objects.create(folder="/somewhere", interpreter="python", environment_file=str(folder / ".env"))
    job = Job.objects.create(kind=Job.Kind.FORK, location=location, status=Job.Status.SUCCEEDED)
    job.folder.mkdir(parents=True)
    (folder / "finished").touch()
    Project.objects.create(folder="/elsewhere", interpreter="python", environment_file="/elsewhere/.env")
    location_at(tmp_path / "data-demo-of-mine/article")
    return folder


def test_stores_rows_and_jobs_of_the_demo_are_deleted(demo_folder: Path) -> None:
    job_folder = Job.objects.get().folder
    demo_rows.clean_up(demo_folder)
    assert not demo_folder.exists()
    assert not job_folder.exists()
    assert Job.objects.count() == 0


def test_other_locations_are_left_alone(demo_folder: Path) -> None:
    demo_rows.clean_up(demo_folder)
    left = Location.objects.get()
    assert (Path(left.path) / "checkpoint.json").read_text() == "{}"
    assert Project.objects.get().folder == "/elsewhere"


def test_a_running_job_is_not_deleted(demo_folder: Path) -> None:
    Job.objects.update(status=Job.Status.RUNNING)
    with pytest.raises(SystemExit, match="under way"):
        demo_rows.clean_up(demo_folder)
    assert (demo_folder / "finished").exists()
    assert Location.objects.count() == 2


def test_a_folder_with_other_files_is_not_deleted(tmp_path: Path) -> None:
    mine = tmp_path / "data-demo"
    (mine / "src").mkdir(parents=True)
    (mine / "src/work.py").write_text("mine")
    (mine / ".env").write_text("KEY=mine")
    with pytest.raises(SystemExit, match="DATA_DIR=") as told:
        demo_rows.clean_up(mine)
    assert "src" in str(told.value)
    assert (mine / "src/work.py").read_text() == "mine" and (mine / ".env").exists()
    link = tmp_path / "linked/demo"
    link.parent.mkdir()
    link.symlink_to(mine)
    with pytest.raises(SystemExit, match="DATA_DIR="):
        demo_rows.clean_up(link)


def test_nothing_is_deleted_without_a_demo(tmp_path: Path) -> None:
    location_at(tmp_path / "data/mine")
    demo_rows.clean_up(tmp_path / "data-demo")
    assert Location.objects.count() == 1
