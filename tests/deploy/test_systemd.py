"""The systemd units are valid, harden what they start, and let runs continue."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checkpoint_site.command import COMMANDS
from tests.deploy.files import ROOT, UNITS, unit

EACH_UNIT = pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)


def test_there_is_a_unit_for_one_machine_and_two_for_several() -> None:
    assert [path.stem for path in UNITS] == ["forkline", "forkline-web", "forkline-worker"]


@pytest.mark.parametrize(
    "path", [path for path in UNITS if path.stem != "forkline-web"], ids=lambda path: path.stem
)
def test_runs_outlive_the_service(path: Path) -> None:
    found = unit(path)
    assert found["KillMode"] == "process"
    # It would be deleted under continuing runs.
    assert "PrivateTmp" not in found


@EACH_UNIT
def test_a_service_starts_an_existing_command(path: Path) -> None:
    _program, *arguments = unit(path)["ExecStart"].split()
    if arguments[0] == "manage.py":
        assert (ROOT / arguments.pop(0)).exists()
    assert arguments[0] in COMMANDS


@EACH_UNIT
@pytest.mark.parametrize("setting", ["NoNewPrivileges", "RestrictSUIDSGID", "ProtectKernelTunables"])
def test_a_service_is_hardened(path: Path, setting: str) -> None:
    assert unit(path)[setting] == "yes"
    assert unit(path)["ProtectSystem"] in {"yes", "full", "strict"}
    assert unit(path)["CapabilityBoundingSet"] == ""


@EACH_UNIT
def test_systemd_accepts_a_unit(path: Path, tmp_path: Path) -> None:
    """Verify where systemd is installed. The programs and the account of the units do not exist."""
    verify = shutil.which("systemd-analyze")
    if verify is None:
        assert {"Type", "ExecStart", "Restart"} <= set(unit(path))
        return
    copy, text = tmp_path / path.name, path.read_text()
    for program in ("/opt/forkline/.venv/bin/python", "/opt/forkline/bin/forkline"):
        text = text.replace(program, sys.executable)
    copy.write_text(text.replace("User=forkline", "User=root").replace("=/opt/forkline", f"={ROOT}"))
    checked = subprocess.run([verify, "verify", "--man=no", copy], capture_output=True, text=True)
    assert path.name not in checked.stderr, checked.stderr
    assert checked.returncode == 0, checked.stderr
