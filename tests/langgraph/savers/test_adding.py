"""A saver is added on the page and at the terminal, and its project's code runs once that is permitted."""

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from tests.langgraph.savers.test_hostile import IN_MEMORY
from viewer.host.locations.adding import open_location
from viewer.messages.translation import translate
from viewer.models import Location, Pool
from viewer.records.hosts import PoolRefused, change_pool


def a_project(folder: Path, python: Path) -> Path:
    """Make a project whose configuration names a saver."""
    folder.mkdir()
    (folder / ".venv").symlink_to(python.parent.parent)
    (folder / "store.py").write_text(IN_MEMORY + f"\nopen({str(folder / 'imported')!r}, 'w')\n")
    (folder / "langgraph.json").write_text('{"graphs": {}, "checkpointer": {"path": "./store.py:saver"}}')
    return folder


def test_the_terminal_needs_permission(db: None, tmp_path: Path, graph_python: Path) -> None:
    folder = a_project(tmp_path / "app", graph_python)
    with pytest.raises(CommandError, match="runs the project's code"):
        call_command("import_checkpoints", f"saver:{folder}")
    assert not (folder / "imported").exists() and not Location.objects.exists()
    call_command("import_checkpoints", f"saver:{folder}", "--permit-code")
    assert (folder / "imported").exists() and Location.objects.get().runs.count() == 1


def test_the_page_imports_nothing(
    runner: Client, settings: Settings, tmp_path: Path, graph_python: Path
) -> None:
    settings.CHECKPOINT_ROOTS = [tmp_path]
    folder = a_project(tmp_path / "app", graph_python)
    runner.post(reverse("location-add"), {"path": f"saver:{folder}"})
    location = Location.objects.get()
    assert (location.store_kind, location.name, location.parent_name) == ("saver", "store:saver", "app")
    page = runner.get(location.get_absolute_url()).content.decode()
    assert "runs the project" in page and not (folder / "imported").exists()
    assert runner.get(reverse("project", args=[location.uid])).status_code == 200


def test_only_its_own_host_reads_it(db: None, tmp_path: Path, graph_python: Path) -> None:
    location = open_location(f"saver:{a_project(tmp_path / 'app', graph_python)}")
    pool = Pool.objects.create(name="shared")
    location.host.pools.add(pool)
    with pytest.raises(PoolRefused) as refused:
        change_pool(location, pool)
    assert "Only the host that added it can read it" in translate(refused.value.message)
    assert not Location.objects.exclude(pool=None).exists()
