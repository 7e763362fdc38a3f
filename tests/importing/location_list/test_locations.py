"""Paths that can become locations."""

from pathlib import Path

import pytest
from django.db import connection
from pytest_django import Settings

from tests.real_stores import copy_of
from viewer.cli.finding import newly_opened
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import MAX_FOREIGN, import_location
from viewer.host.locations.sources import address_of
from viewer.host.reading.location_reader import open_reader
from viewer.host_requests import UnknownLocation
from viewer.messages.translation import translate
from viewer.models import Checkpoint, Location
from viewer.stores.json_folder import FolderCursor, JsonFolder
from viewer.stores.protocol import ReadLimits
from viewer.stores.safe_open import kernel_file_system

pytestmark = pytest.mark.django_db


def test_a_folder_below_a_root_becomes_one_location(tmp_path: Path) -> None:
    (tmp_path / "cp").mkdir()
    first = open_location(str(tmp_path / "cp"), [tmp_path])
    again = open_location(str(tmp_path / "x" / ".." / "cp"), [tmp_path])
    assert first == again
    assert (first.path, first.store_kind) == (str((tmp_path / "cp").resolve()), "json")


@pytest.mark.parametrize("way", ["..", "look-alike", "link", "absolute"])
def test_no_path_leads_out_of_the_roots(way: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    outside = tmp_path / "root-of-others"
    outside.mkdir()
    (root / "link").symlink_to(outside)
    path = {
        "..": f"{root}/../root-of-others",
        "look-alike": str(outside),
        "link": str(root / "link"),
        "absolute": "/",
    }[way]
    with pytest.raises(UnknownLocation, match="outside"):
        open_location(path, [root])
    assert not Location.objects.exists()
    if way != "absolute":
        assert open_location(path).path == str(outside)


@pytest.mark.parametrize("path", ["absent", "\0", "x" * 5000, "a.txt"])
def test_other_paths_are_refused_with_a_message(path: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(UnknownLocation) as error:
        open_location(f"{tmp_path}/{path}", [tmp_path])
    assert str(error.value).endswith(".")


@pytest.mark.parametrize("path", ["/", "//", "/proc/self/root", "/tmp/..", "link"])
def test_the_root_of_the_file_system_is_refused(path: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    with pytest.raises(UnknownLocation, match="root of the file system"):
        open_location(tmp_path / path if path == "link" else path)
    assert not Location.objects.exists()


@pytest.mark.parametrize("path", ["/proc", "/proc/self", "/proc/self/status", "/sys", "/proc/self/fd"])
def test_file_systems_of_the_kernel_are_refused(path: str) -> None:
    with pytest.raises(UnknownLocation, match="file system of the kernel"):
        open_location(path)
    assert not Location.objects.exists()


def test_a_root_that_an_earlier_version_added_is_no_longer_read() -> None:
    location = Location.objects.create(path="/", store_kind="json")
    summary = import_location(location)
    assert summary.read_error and "root of the file system" in translate(summary.read_error)


def test_a_file_system_of_the_kernel_below_a_location_is_left_out(tmp_path: Path) -> None:
    assert kernel_file_system(Path("/proc").stat().st_dev) == "proc"
    assert kernel_file_system(tmp_path.stat().st_dev) == ""
    with JsonFolder(Path("/proc"), ReadLimits(), []) as folder:
        assert list(folder.entries()) == []


def test_the_number_of_names_in_a_location_is_limited(tmp_path: Path, settings: Settings) -> None:
    settings.LOCATION_MAX_FILES = 30
    folder = copy_of("1.15.30/json", tmp_path)
    location = open_location(folder)
    assert import_location(location).read_error is None
    for number in range(30):
        (folder / "main" / f"{number}.txt").touch()
    summary = import_location(location)
    assert summary.read_error and "than LOCATION_MAX_FILES allows (30)" in translate(summary.read_error)
    assert location.checkpoints.filter(state="present").count() == location.checkpoints.count() > 0
    # It is tried again when the limit or the folder has changed.
    settings.LOCATION_MAX_FILES = 300
    assert import_location(location).read_error is None


def test_a_folder_of_other_json_files_is_refused_unless_a_checkpoint_is_among_them(tmp_path: Path) -> None:
    for number in range(MAX_FOREIGN):
        (tmp_path / f"package-{number}.json").write_text("{}")
    summary = import_location(open_location(tmp_path))
    assert summary.read_error and f"first {MAX_FOREIGN} JSON files" in translate(summary.read_error)
    copy_of("1.15.30/json", tmp_path / "main")
    location = open_location(tmp_path)
    assert import_location(location).read_error is None
    assert location.checkpoints.exists() and location.problems.count() == MAX_FOREIGN


@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit, OSError])
def test_a_new_location_whose_import_ends_before_anything_is_stored_is_not_added(
    tmp_path: Path, ends: type[BaseException]
) -> None:
    with pytest.raises(ends), newly_opened(tmp_path):
        assert Location.objects.filter(path=str(tmp_path)).exists()
        raise ends
    assert not Location.objects.exists()


def test_a_location_of_which_something_is_stored_or_that_was_known_stays(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    known = open_location(tmp_path / "empty")
    with pytest.raises(KeyboardInterrupt), newly_opened(known.path):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), newly_opened(copy_of("1.15.30/json", tmp_path)) as location:
        import_location(location)
        raise KeyboardInterrupt
    assert set(Location.objects.all()) == {known, location}


@pytest.mark.sqlite
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_forklines_own_database_is_not_a_location(ending: str) -> None:
    Location.objects.create(path="/somewhere", store_kind="json")
    own = Path(f"{connection.settings_dict['NAME']}{ending}")
    assert own.exists()
    with pytest.raises(UnknownLocation, match="own database"):
        open_location(own)


@pytest.mark.parametrize("below", ["", "jobs", "jobs/store", "new/folder", "store.db", "link", "link/jobs"])
@pytest.mark.parametrize("way", ["as it is", "by a link", "by a link above it", "with dots", "as a URL"])
def test_nothing_in_the_data_folder_is_a_location(
    below: str, way: str, tmp_path: Path, settings: Settings
) -> None:
    own = tmp_path / "home/data"
    copy_of("1.15.30/json", own / "jobs").rename(own / "jobs/store")
    copy_of("1.15.30/cp.db", own).rename(own / "store.db")
    (own / "link").symlink_to(own / "jobs")
    (tmp_path / "link").symlink_to(own)
    (tmp_path / "above").symlink_to(tmp_path / "home")
    settings.DATA_DIR = tmp_path / "above/data"
    path = {
        "as it is": f"{own}/{below}",
        "by a link": f"{tmp_path}/link/{below}",
        "by a link above it": f"{tmp_path}/above/data/{below}",
        "with dots": f"{own}/jobs/../{below}",
        "as a URL": f"file://{own}/{below}",
    }[way]
    with pytest.raises(UnknownLocation, match="data folder"):
        open_location(path)
    assert not Location.objects.exists()


def test_a_folder_with_a_name_like_that_of_the_data_folder_is_a_location(
    tmp_path: Path, settings: Settings
) -> None:
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    store = copy_of("1.15.30/json", tmp_path / "data-of-mine")
    assert open_location(store).path == str(store)
    assert import_location(open_location(store)).added


def test_a_location_that_is_now_in_the_data_folder_is_not_read(tmp_path: Path, settings: Settings) -> None:
    location = open_location(copy_of("1.15.30/json", tmp_path / "data/checkpoints"))
    assert import_location(location).added
    stored = Checkpoint.objects.count()
    settings.DATA_DIR = tmp_path / "data"
    (tmp_path / "data/checkpoints/new.json").write_text("{}")
    summary = import_location(location)
    assert summary.read_error and "data folder" in translate(summary.read_error)
    assert Checkpoint.objects.count() == stored, "What is stored is not lost."


@pytest.mark.parametrize("depth", [1, 2])
def test_the_data_folder_is_skipped_in_a_folder_above_it(
    depth: int, tmp_path: Path, settings: Settings
) -> None:
    own = tmp_path / "project/a/b" if depth == 2 else tmp_path / "project/data"
    copy_of("1.15.30/json", tmp_path / "project/checkpoints")
    copy_of("1.15.30/json", own / "jobs/1/store")
    settings.DATA_DIR = own
    location = open_location(tmp_path / "project")
    import_location(location)
    keys = set(Checkpoint.objects.values_list("source_key", flat=True))
    assert keys and all(key.startswith("checkpoints/") for key in keys)
    assert Checkpoint.objects.count() == len(list((tmp_path / "project/checkpoints").rglob("*.json")))
    assert not location.problems.exists()
    hidden = next(own.rglob("*.json"))
    known = FolderCursor()
    with open_reader(address_of(location)) as reader:
        assert reader.entry(str(hidden.relative_to(tmp_path / "project"))) is None
        assert {one.key for one in reader.newest(10_000)} == keys
        assert {one.key for one in reader.entries(known)} == keys
        hidden.with_name("new.json").write_text("{}")
        (own / "new.json").write_text("{}")
        (own / "folder").mkdir()
        assert reader.listing(known).keys == set()
        (tmp_path / "project/checkpoints/new.json").write_text("{}")
        assert reader.listing(known).keys == {"checkpoints/new.json"}


def test_an_empty_list_of_roots_allows_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnknownLocation):
        open_location(tmp_path, [])


def test_the_kind_of_a_store_is_recognised_by_its_content(tmp_path: Path) -> None:
    store = copy_of("1.15.30/cp.db", tmp_path).rename(tmp_path / "checkpoints.json")
    assert open_location(store).store_kind == "sqlite"


def test_a_path_that_is_not_there_names_one_like_it(db: None, tmp_path: Path) -> None:
    (tmp_path / "newsroom" / ".checkpoints").mkdir(parents=True)
    for typed in ("newsrom/.checkpoints", "newsroom/.checkpoint", "newsroom/checkpoints"):
        with pytest.raises(UnknownLocation) as error:
            open_location(tmp_path / typed, [tmp_path])
        assert f"Did you mean {tmp_path}/newsroom/.checkpoints?" in str(error.value)
    for typed in ("newsrom/other", "nothing", "newsroom/.checkpoints/a/b"):
        with pytest.raises(UnknownLocation) as error:
            open_location(tmp_path / typed, [tmp_path])
        assert "Did you mean" not in str(error.value)
    # What lies outside of the allowed folders is not named.
    with pytest.raises(UnknownLocation, match="outside") as error:
        open_location(tmp_path / "newsrom", [tmp_path / "newsroom"])
    assert "Did you mean" not in str(error.value)
