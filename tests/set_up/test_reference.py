"""docs/reference.md matches the code."""

import re
from pathlib import Path

from checkpoint_site.command import COMMANDS
from checkpoint_site.environment import SETTINGS
from scripts.reference import TARGET, reference
from viewer.cli import SUBCOMMANDS

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_is_up_to_date() -> None:
    assert TARGET.read_text() == reference(), "run: make reference"


def test_the_reference_has_every_command() -> None:
    headings = re.findall(r"^### forkline (\S+)$", reference(), re.M)

    assert headings == [*COMMANDS, *SUBCOMMANDS]


def test_the_reference_has_every_setting_that_is_read() -> None:
    source = (ROOT / "checkpoint_site" / "settings.py").read_text()
    read = re.findall(r'env_\w+\(\s*"(\w+)"', source)

    assert read == [setting.name for setting in SETTINGS]
    assert all(f"| `{name}` |" in reference() for name in read)


def test_every_argument_has_a_meaning() -> None:
    assert [line for line in reference().splitlines() if line.endswith("|  |")] == []


def test_the_reference_has_no_path_of_this_machine() -> None:
    assert str(ROOT) not in reference()
    assert str(Path.home()) + "/" not in reference()
