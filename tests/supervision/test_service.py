"""The systemd unit is valid and lets runs continue."""

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parents[2] / "scripts" / "forkline.service"


def service() -> dict[str, str]:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    return dict(parser["Service"])


def test_runs_outlive_the_service() -> None:
    found = service()
    assert found["KillMode"] == "process"
    # It would be deleted under continuing runs.
    assert "PrivateTmp" not in found


def test_the_service_starts_an_existing_command() -> None:
    _python, *arguments = service()["ExecStart"].split()
    assert arguments == ["manage.py", "up"]
    assert (UNIT.parent.parent / "manage.py").exists()


@pytest.mark.parametrize("setting", ["NoNewPrivileges", "ProtectSystem", "RestrictSUIDSGID"])
def test_the_service_is_hardened(setting: str) -> None:
    assert service()[setting] == "yes"


def test_systemd_accepts_the_service(tmp_path: Path) -> None:
    """Verify where systemd is installed. The program and the account of the unit do not exist."""
    verify = shutil.which("systemd-analyze")
    if verify is None:
        assert {"Type", "User", "ExecStart", "Restart"} <= set(service())
        return
    unit = tmp_path / "forkline.service"
    text = UNIT.read_text().replace("/opt/forkline/.venv/bin/python", sys.executable)
    unit.write_text(
        text.replace("User=forkline", "User=root").replace("/opt/forkline", str(UNIT.parent.parent))
    )
    checked = subprocess.run([verify, "verify", "--man=no", unit], capture_output=True, text=True)
    assert "forkline.service" not in checked.stderr, checked.stderr
    assert checked.returncode == 0, checked.stderr
