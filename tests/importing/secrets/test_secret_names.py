"""Secrets in the names of files, folders and rows are not stored."""

import json
import os
import sqlite3
from pathlib import Path

import pytest
from django.core import serializers

from tests.imported import imported_location
from tests.real_stores import one_checkpoint, write_checkpoint
from viewer.host.locations.adding import open_location
from viewer.host.locations.importing import import_location
from viewer.host.locations.sources import unredacted_source
from viewer.models import Checkpoint, Location, Problem, Run

KEY = "sk-proj-CANARY0123456789abcdef"

pytestmark = pytest.mark.django_db


def stored() -> str:
    """Every row of a location as text."""
    rows = [row for model in (Location, Run, Checkpoint, Problem) for row in model.objects.all()]
    return str(serializers.serialize("json", rows))


def test_names_of_files_and_folders_are_redacted(tmp_path: Path) -> None:
    folder = tmp_path / "location"
    write_checkpoint(folder, "20260101T000000_00000000")
    write_checkpoint(folder, f"20260101T000001_{KEY}")
    write_checkpoint(folder, f"20260101T000001_{KEY}x")
    write_checkpoint(folder, "20260101T000002_00000002", branch=f"fork/{KEY}")
    (folder / f"{KEY}.json").write_text("{")
    os.mkfifo(folder / f"pipe {KEY}.json")
    write_checkpoint(folder, "20260101T000003_00000003", parent_id=KEY)
    location = open_location(folder)
    for _ in range(2):
        summary = import_location(location)
    # Two files and a branch of that name are read as different ones.
    assert location.checkpoints.count() == 5
    assert location.checkpoints.values("source_key").distinct().count() == 5
    assert summary.problems == 2 and not summary.is_news and summary.read == 1
    assert all("[redacted]" in problem.source_key for problem in location.problems.all())
    assert "CANARY" not in stored()


def test_ids_of_rows_are_redacted(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    body = json.dumps(one_checkpoint(branch=None, parent_id=None))
    rows = [
        ("20260101T000000_00000000", KEY, KEY, f"fork/{KEY}", body),
        (f"20260101T000001_{KEY}", "now", None, "main", body),
    ]
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE checkpoints (id TEXT PRIMARY KEY, created_at TEXT, parent_id TEXT, branch TEXT,"
            " data TEXT)"
        )
        database.executemany("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?)", rows)
    database.close()
    location = imported_location(path)
    assert location.checkpoints.filter(branch__startswith="fork/[redacted] (").count() == 1
    assert location.checkpoints.count() == 2 and not location.problems.exists()
    assert "CANARY" not in stored()


def test_branches_that_differ_only_in_a_secret_stay_different(tmp_path: Path) -> None:
    folder = tmp_path / "location"
    for number, branch in enumerate((f"fork/{KEY}", f"fork/{KEY}2")):
        write_checkpoint(folder, f"20260101T00000{number}_0000000{number}", branch=branch)
    location = imported_location(folder)
    branches = set(location.checkpoints.values_list("branch", flat=True))
    assert len(branches) == 2 and all(branch.startswith("fork/[redacted] (") for branch in branches)
    for checkpoint in location.checkpoints.all():
        assert not Path(checkpoint.source).exists()
        real = unredacted_source(checkpoint)
        assert Path(real.source).is_file() and real.branch.startswith(f"fork/{KEY}")
    assert "CANARY" not in stored()
    assert import_location(location).read == 0
