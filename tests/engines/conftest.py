"""The counter, a second engine that only tests have, and stores of it."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from tests.engines import counter
from viewer import engines
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.models import Location, Project

TEMPLATES = Path(counter.__file__).parent / "templates"


@pytest.fixture
def counter_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Register the counter, with its templates, for one test."""
    from django.template import engines as template_engines

    monkeypatch.setitem(engines.ENGINES, counter.NAME, counter.PACKAGE)
    folders = template_engines["django"].engine.dirs  # type: ignore[attr-defined]
    folders.append(TEMPLATES)
    yield counter.NAME
    folders.remove(TEMPLATES)


def write_counts(folder: Path, number: int, **changes: Any) -> Path:
    """Write a checkpoint of two counts as the counter does, and return its path."""
    body = {
        "counter": 1,
        "id": f"s{number}",
        "parent": f"s{number - 1}" if number else None,
        "at": f"2026-11-22T12:00:0{number}+00:00",
        "trigger": "step",
        "run": "r1",
        "limit": 3,
        "state": {"label": "sheep", "by": 1, "is_fast": False},
        "units": {"left": number, "right": number + 1},
        **changes,
    }
    path = folder / "main" / f"{body['id']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body))
    return path


@pytest.fixture
def counted(counter_engine: str, transactional_db: None, tmp_path: Path) -> Location:
    """Return an imported location of the counter with three checkpoints, and a confirmed project."""
    for number in range(3):
        write_counts(tmp_path / "counts", number)
    location = open_location(tmp_path / "counts")
    (tmp_path / "project").mkdir()
    location.project = Project.objects.create(
        folder=str(tmp_path / "project"), interpreter=sys.executable, confirmed_at=timezone.now()
    )
    location.save()
    import_location(location)
    return location


def data_folder() -> Path:
    """Return the data folder of this test process."""
    return Path(django_settings.DATA_DIR)
