"""The file to which entries of the audit trail are appended: it stops nothing if it fails."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from checkpoint_site.logs import AuditFile
from viewer.models import AuditEntry
from viewer.records.audit import Action, Audited, record

pytestmark = pytest.mark.django_db
Committed = Callable[[str], None]


@pytest.fixture
def file(tmp_path: Path, settings: LazySettings) -> Iterator[Path]:
    """Return the file, to which this process appends as the settings say."""
    settings.AUDIT, settings.AUDIT_FILE = True, tmp_path / "log" / "audit.jsonl"
    settings.AUDIT_FILE.parent.mkdir()
    handler, sink = AuditFile(settings.AUDIT_FILE, delay=True), logging.getLogger("forkline.audit")
    sink.addHandler(handler)
    sink.setLevel(logging.INFO)
    yield settings.AUDIT_FILE
    sink.removeHandler(handler)
    handler.close()


@pytest.fixture
def committed(django_capture_on_commit_callbacks: Any) -> Committed:
    """Return a function that stores an entry about this key, and commits."""

    def store(key: str) -> None:
        with django_capture_on_commit_callbacks(execute=True):
            record(Action.OPENED, Audited.RUN, key)

    return store


def test_a_rotated_file_is_continued_in_a_new_one(file: Path, committed: Committed) -> None:
    committed("one")
    file.rename(file.with_suffix(".1"))
    committed("two")
    assert json.loads(file.with_suffix(".1").read_text())["key"] == "one"
    assert json.loads(file.read_text())["key"] == "two"


def test_a_file_that_cannot_be_written_stops_nothing(
    file: Path, committed: Committed, capsys: pytest.CaptureFixture[str]
) -> None:
    file.parent.rmdir()
    committed("one")
    assert AuditEntry.objects.filter(key="one").exists() and "No such file" in capsys.readouterr().err
    file.parent.mkdir()
    committed("two")
    assert json.loads(file.read_text())["key"] == "two"


def test_a_file_that_is_away_after_some_entries_stops_nothing(
    file: Path, committed: Committed, capsys: pytest.CaptureFixture[str]
) -> None:
    committed("one")
    file.unlink()
    file.parent.rmdir()
    committed("two")
    assert AuditEntry.objects.filter(key="two").exists() and "No such file" in capsys.readouterr().err
