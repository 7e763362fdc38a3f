"""``forkline diff``."""

import json
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

STORE = Path(__file__).resolve().parents[1] / "recorded_stores/1.15.30/json"


@pytest.fixture
def files(db: None, tmp_path: Path) -> list[Path]:
    """The files of a crew's checkpoints, in a copy, oldest first on each branch."""
    copy = Path(shutil.copytree(STORE, tmp_path / "json"))
    return sorted(copy.rglob("*.json"))


def diff(*arguments: object) -> tuple[str, int]:
    """The output and the exit status."""
    out = StringIO()
    try:
        call_command("checkpoints", "diff", *map(str, arguments), stdout=out)
    except SystemExit as error:
        return out.getvalue(), int(error.code or 0)
    return out.getvalue(), 0


def test_equal_checkpoints_exit_with_0(files: list[Path]) -> None:
    output, status = diff(files[0], files[0])
    assert status == 0 and "same" in output


def test_different_checkpoints_exit_with_1_and_show_the_lines_that_differ(files: list[Path]) -> None:
    output, status = diff(files[0], files[-1])
    assert status == 1
    assert "Outputs: " in output and "\n  + " in output


def test_the_document_holds_every_value_that_differs(files: list[Path]) -> None:
    output, status = diff(files[0], files[-1], "--json")
    document: dict[str, Any] = json.loads(output)
    assert status == 1 and document["differs"]
    assert document["a"]["id"] != document["b"]["id"]
    rows = document["rows"]
    assert all("a" not in row and "b" not in row for row in rows if row["same"])
    assert all("a" in row or "b" in row for row in rows if not row["same"])


def test_a_missing_checkpoint_exits_with_2(files: list[Path]) -> None:
    with pytest.raises(CommandError) as failed:
        diff(files[0], files[0].with_name("nothing.json"))
    assert failed.value.returncode == 2
