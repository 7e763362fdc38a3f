"""``checkpoints doctor``: its checks, its repairs and its exit status."""

import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.set_up.test_data_folder import made, manage
from viewer.cli.commands import doctor

__all__ = ["made"]


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "data"))


def examined(data: Path) -> tuple[int, dict[str, Any]]:
    """Return the exit status, and the state and message of each check without the one for root."""
    ended = manage(data, "checkpoints", "doctor", "--json")
    document = json.loads(ended.stdout)
    found: dict[str, Any] = {}
    for one in document["findings"]:
        found.setdefault(one["check"], []).append((one["state"], one["text"]))
    assert set(found) >= {"versions", "permissions", "space", "roots", "database"}
    is_root = found.pop("user", None)
    assert bool(is_root) == (os.geteuid() == 0)
    states = {state for some in found.values() for state, _text in some} | ({"warning"} if is_root else set())
    status = 2 if "error" in states else 1 if "warning" in states else 0
    assert (ended.returncode, document["state"]) == (status, ["ok", "warning", "error"][status])
    return status, found


def test_an_intact_folder_passes_every_check(data: Path) -> None:
    _status, found = examined(data)
    assert {state for some in found.values() for state, _text in some} <= {"ok"}
    assert found["worker"] == [("ok", "No worker is running, so no job starts.")]


def test_open_permissions_are_restricted_and_reported_once(data: Path) -> None:
    folder = data / "imports"
    next(folder.iterdir()).chmod(0o644)
    assert examined(data)[1]["permissions"][0][0] == "warning"
    assert examined(data)[1]["permissions"][0][0] == "ok"


@pytest.mark.parametrize("how", ["gone", "damaged", "newer"])
def test_an_unusable_database_is_an_error(data: Path, how: str) -> None:
    path = data / "forkline.sqlite3"
    if how == "gone":
        path.unlink()
    elif how == "damaged":
        whole = path.read_bytes()
        path.write_bytes(whole[:32768] + b"\x5a" * 65536 + whole[98304:])
    else:
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("INSERT INTO django_migrations VALUES (9999, 'viewer', '9999_x', '2030-01-01')")
        database.close()
    status, found = examined(data)
    assert status == 2 and found["database"][0][0] == "error" and "jobs" not in found
    assert how != "gone" or not path.exists()


def test_a_missing_interpreter_is_a_warning(data: Path) -> None:
    database = sqlite3.connect(data / "forkline.sqlite3", isolation_level=None)
    columns = [row[1] for row in database.execute("PRAGMA table_info(viewer_project)")]
    values = {
        "host_id": 1,
        "folder": "/tmp",
        "interpreter": "/nowhere/python",
        "confirmed_at": "2026-01-01",
        "limits": "{}",
    }
    needed = [name for name in columns if name not in ("id", "confirmed_by_id")]
    empty = {"entry_points": "[]", "limits": "{}", "tool_choices": "{}", "isolation": "{}", "kept_keys": "{}"}
    given = [values.get(name, empty.get(name, "")) for name in needed]
    marks = ", ".join("?" * len(needed))
    database.execute(f"INSERT INTO viewer_project ({', '.join(needed)}) VALUES ({marks})", given)
    database.close()
    ((state, text),) = examined(data)[1]["projects"]
    assert state == "warning" and "/nowhere/python" in text


@pytest.mark.parametrize(("free", "state"), [(10, "error"), (500, "warning"), (5000, "ok")])
def test_low_disk_space_is_reported(free: int, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=free * 1024**2)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert [one.state for one in doctor.of_space()] == [state]


@pytest.mark.parametrize(
    ("text", "state", "shown"),
    [("[m]\ninput = 1\noutput = 2\n", "ok", "has 1 price"), ("[m]\ninput = -1\n", "warning", "not used")],
)
def test_the_file_of_prices_is_checked(
    text: str, state: str, shown: str, tmp_path: Path, settings: Any
) -> None:
    settings.PRICES_FILE = tmp_path / "prices.toml"
    settings.PRICES_FILE.write_text(text)
    (found,) = doctor.of_prices()
    assert found.state == state and shown in found.text
    settings.PRICES_FILE = None
    assert not list(doctor.of_prices())


def test_the_file_of_the_audit_trail_is_checked(tmp_path: Path, settings: Any) -> None:
    settings.AUDIT, settings.AUDIT_FILE = True, tmp_path / "audit.jsonl"
    (found,) = doctor.of_audit_file()
    assert found.state == "ok" and not settings.AUDIT_FILE.exists()
    settings.AUDIT_FILE = tmp_path / "none" / "audit.jsonl"
    (found,) = doctor.of_audit_file()
    assert found.state == "warning" and "not appended" in found.text
    settings.AUDIT_FILE = tmp_path
    assert [one.state for one in doctor.of_audit_file()] == ["warning"]
    settings.AUDIT_FILE = None
    assert not list(doctor.of_audit_file())


@pytest.mark.django_db
def test_each_check_is_printed_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) if os.geteuid() == 0 else pytest.MonkeyPatch.context():
        call_command("checkpoints", "doctor")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("✓ versions: Forkline ") and lines[-1].startswith(
        ("No problems found", "There are")
    )
