"""What can be refused without the engine, which takes seconds to import, is refused before it is imported."""

import subprocess
import sys
from pathlib import Path

import pytest

RUNNERS = Path(__file__).resolve().parents[2] / "viewer/runners"
WITHOUT_ENGINE = {
    path.stem
    for path in (RUNNERS / "forkline_crewai").glob("*.py")
    if "Does not import the engine" in path.read_text().split('"""')[1]
}


@pytest.mark.parametrize("name", sorted(WITHOUT_ENGINE | {"job", "effects"}))
def test_a_module_is_imported_without_the_engine(name: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(RUNNERS)!r}); sys.modules['crewai'] = None\n"
    code += f"import forkline_crewai.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_modules_say_that_they_do_without_the_engine() -> None:
    assert {"checkpoints", "components", "entry_points"} <= WITHOUT_ENGINE
