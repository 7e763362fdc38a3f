"""Every argument of every command has a type, and a sample of the hostile calls is refused in one line."""

import subprocess
import sys
from pathlib import Path

from quality.fuzz import terminal_calls

ROOT = Path(__file__).resolve().parent.parent.parent
# Every n-th call. ``make fuzz`` makes all of them.
EVERY_ARGUMENT, EVERY_SETTING = 181, 139
SAMPLE = f"""
import sys
from quality.fuzz.terminal_calls import tried, tried_settings
from quality.temporary_data_folder import temporary_data_folder
with temporary_data_folder() as folder:
    found = [tried(folder, {EVERY_ARGUMENT}), tried_settings(folder, {EVERY_SETTING})]
print("\\n".join(fault for one in found for fault in one.faults))
sys.exit(any(one.faults for one in found) or min(one.refused for one in found) < 5)
"""


def test_every_argument_with_a_value_has_a_type() -> None:
    assert terminal_calls.untyped() == []


def test_a_sample_of_hostile_calls_is_refused_in_one_line_and_changes_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SAMPLE], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
