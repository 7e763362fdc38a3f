"""``forkline remove``: by any form of a location's path, and only what can be read again."""

import os
from pathlib import Path

import pytest

from tests.real_stores import copy_of, hashes_below
from tests.terminal import Terminal
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.models import Checkpoint, Location

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]


@pytest.mark.parametrize("form", ["absolute", "relative", "link", "slash", "file"])
def test_a_location_is_removed_by_any_form_of_its_path(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    folder = copy_of("1.15.30/json", tmp_path)
    before = hashes_below(folder)
    import_location(open_location(folder))
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    forms = {
        "absolute": str(folder),
        "relative": os.path.relpath(folder),
        "link": "link",
        "slash": f"{folder}/",
        "file": folder.as_uri(),
    }
    assert terminal.document("remove", forms[form]) == {"location": str(folder), "removed": True}
    assert not Location.objects.exists() and not Checkpoint.objects.exists()
    assert hashes_below(folder) == before


def test_a_location_that_is_gone_can_be_removed_unless_its_copies_are_all_that_is_left(
    tmp_path: Path, terminal: Terminal
) -> None:
    (tmp_path / "empty").mkdir()
    folder = copy_of("1.15.30/json", tmp_path)
    for one in (folder, tmp_path / "empty"):
        import_location(open_location(one))
        one.rename(f"{one}-elsewhere")
    assert terminal.document("remove", tmp_path / "empty")["removed"]
    with pytest.raises(Exception, match="Only their stored copies remain"):
        terminal.document("remove", folder)
    assert Location.objects.get().path == str(folder)


def test_what_is_no_location_is_not_removed(tmp_path: Path, terminal: Terminal) -> None:
    location = open_location(copy_of("1.15.30/json", tmp_path))
    for name in (tmp_path, Path(location.path) / "main", "%", "/"):
        with pytest.raises(Exception, match="is not a location"):
            terminal.document("remove", name)
    assert Location.objects.get() == location
