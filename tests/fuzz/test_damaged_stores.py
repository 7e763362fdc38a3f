"""One case of each attack on damaged stores passes. ``make fuzz`` runs all of them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(
    ("attack", "case"),
    [
        ("damaged_rows", "^writes.value: empty bytes$"),
        ("damaged_files", "^entities.0.checkpoint_method_outputs: null$"),
    ],
)
def test_a_damaged_store_opens_on_every_page(attack: str, case: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", f"quality.fuzz.{attack}", case, "0.01"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
