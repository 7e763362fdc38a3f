"""Stores are found in the allowed folders, and paths completed, without leaving them."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.langgraph.conftest import copied
from tests.real_stores import STORES
from viewer.host.locations import finding
from viewer.host.locations.finding import find_stores, paths_like
from viewer.models import Location

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, where programs keep their stores."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    return folder


def found(root: Path) -> dict[str, tuple[str, int]]:
    stores = find_stores([root])
    return {str(Path(one.path).relative_to(root)): (one.engine, one.count) for one in stores}


def test_stores_of_every_kind_are_found_with_their_counts(tmp_path: Path) -> None:
    shutil.copytree(STORES / "1.15.30/json", tmp_path / "newsroom/.checkpoints")
    database = next(path for path in sorted(STORES.rglob("*.db")) if "1.15" in str(path))
    shutil.copy(database, tmp_path / "crew.db")
    (tmp_path / "graphs").mkdir()
    copied("lg12", tmp_path / "graphs")
    stores = found(tmp_path)
    assert stores["newsroom/.checkpoints"] == ("CrewAI", 6)
    assert stores["crew.db"][0] == "CrewAI" and stores["crew.db"][1] > 0
    assert stores["graphs/lg12.db"][0] == "LangGraph" and stores["graphs/lg12.db"][1] > 0


def test_what_is_no_store_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("{}")
    (tmp_path / "text.db").write_text("no database")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    os.mkfifo(tmp_path / "pipe.db")
    assert found(tmp_path) == {}


def test_links_hidden_folders_and_our_own_data_are_left_out(tmp_path: Path, settings: Settings) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    shutil.copytree(STORES / "1.15.30/json", outside)
    shutil.copytree(STORES / "1.15.30/json", root / ".cache/store")
    settings.DATA_DIR = root / "data"
    shutil.copytree(STORES / "1.15.30/json", settings.DATA_DIR / "store")
    (root / "link").symlink_to(outside)
    (root / "loop").symlink_to(root)
    assert found(root) == {}
    assert paths_like(f"{settings.DATA_DIR}/", [root]) == []


def test_the_search_ends_in_a_tree_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MAX_FOLDERS", 20)
    for number in range(60):
        (tmp_path / f"a{number:02}/b/c").mkdir(parents=True)
    shutil.copytree(STORES / "1.15.30/json", tmp_path / "a59/b/store")
    assert found(tmp_path) == {}


def test_paths_are_completed_inside_the_allowed_folders_only(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("alpha", "alps", ".hidden", "beta"):
        (root / name).mkdir(parents=True)
    for name in ("alarm.db", "alone.txt"):
        (root / name).touch()
    offered = [path.removeprefix(f"{root}/") for path in paths_like(f"{root}/al", [root])]
    assert offered == ["alarm.db", "alpha/", "alps/"]
    assert paths_like("", [root]) == [f"{root}/"]
    assert paths_like(str(tmp_path), [root]) == [f"{root}/"]
    for typed in ("/etc/", f"{root}/../", "~nobody-here/", "\0", "x" * 5000, f"{root}/alpha/../../"):
        assert not [path for path in paths_like(typed, [root]) if not path.startswith(str(root))], typed


def test_a_home_folder_is_completed_as_it_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "newsroom").mkdir()
    assert paths_like("~/new", [tmp_path]) == ["~/newsroom/"]


def test_stores_of_known_programs_are_named(home: Path) -> None:
    for path in (".deepagents/.state/sessions.db", "swe/.langgraph_api/checkpoints.sqlite"):
        folder = (home / path).parent
        folder.mkdir(parents=True)
        copied("lg12", folder)
        (folder / "lg12.db").rename(home / path)
    shutil.copytree(STORES / "1.15.30/json", home / "newsroom/.checkpoints")
    stores = {one.path.removeprefix(f"{home}/"): one for one in find_stores([home])}
    assert {path: one.name for path, one in stores.items()} == {
        ".deepagents/.state/sessions.db": "Deep Agents sessions",
        "swe/.langgraph_api/checkpoints.sqlite": "LangGraph development server",
        "newsroom/.checkpoints": "CrewAI checkpoints",
    }
    deep = stores[".deepagents/.state/sessions.db"]
    assert deep.counts_runs and deep.count and deep.size == Path(deep.path).stat().st_size


def test_a_known_store_outside_the_allowed_folders_is_not_opened(home: Path, tmp_path: Path) -> None:
    store = home / ".deepagents/sessions.db"
    store.parent.mkdir()
    store.write_text("never opened")
    (one,) = find_stores([tmp_path])
    assert (one.path, one.name, one.count, one.size) == (str(store), "Deep Agents sessions", 0, 12)
    assert one.setting == f"CHECKPOINT_ROOTS={tmp_path}:{store.parent}"


def test_a_known_store_that_is_a_location_is_not_found_through_a_link(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = home / ".deepagents/sessions.db"
    store.parent.mkdir()
    store.touch()
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    assert len(find_stores([tmp_path])) == 1
    Location.objects.create(path=str(store), store_kind=Location.StoreKind.SQLITE)
    assert find_stores([tmp_path]) == []


def test_a_link_does_not_lead_a_known_store_out_of_the_allowed_folders(home: Path, tmp_path: Path) -> None:
    copied("lg12", tmp_path)
    (home / ".deepagents").mkdir()
    (home / ".deepagents/sessions.db").symlink_to(tmp_path / "lg12.db")
    (one,) = find_stores([home])
    assert one.setting and not one.count


def test_pickles_are_named_and_never_opened(home: Path) -> None:
    folder = home / "agent/.langgraph_api"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "store.pckl")
    assert find_stores([home]) == []
    (folder / ".langgraph_checkpoint.1.pckl").write_bytes(b"\x80\x04cos\nsystem\n.")
    (one,) = find_stores([home])
    assert (one.path, one.name, one.is_readable) == (str(folder), "LangGraph development server", False)
    (folder / "checkpoints.sqlite").touch()
    assert find_stores([home]) == []
