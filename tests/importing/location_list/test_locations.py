"""Paths that can become locations."""

from pathlib import Path

import pytest
from django.db import connection

from tests.real_stores import copy_of
from viewer.importing import UnknownLocation, open_location
from viewer.models import Location

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


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_forklines_own_database_is_not_a_location(ending: str) -> None:
    Location.objects.create(path="/somewhere", store_kind="json")
    own = Path(f"{connection.settings_dict['NAME']}{ending}")
    assert own.exists()
    with pytest.raises(UnknownLocation, match="own database"):
        open_location(own)


def test_an_empty_list_of_roots_allows_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnknownLocation):
        open_location(tmp_path, [])


def test_the_kind_of_a_store_is_recognised_by_its_content(tmp_path: Path) -> None:
    store = copy_of("1.15.30/cp.db", tmp_path).rename(tmp_path / "checkpoints.json")
    assert open_location(store).store_kind == "sqlite"
