"""The interpreter of a version starts for each run, or once and forks."""

from pathlib import Path

import pytest

from quality.compatibility.environments import interpreter
from tests.engine_runs.prewarmed import launched

PROGRAM = "import sys; print('crewai' in sys.modules)"


@pytest.mark.parametrize("warm", [False, True])
def test_a_prewarmed_interpreter_has_imported_the_engine(
    engine_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: bool
) -> None:
    monkeypatch.delenv("WARM", raising=False)
    if warm:
        monkeypatch.setenv("WARM", "1")
    (tmp_path / "program.py").write_text(PROGRAM)
    log = tmp_path / "log.txt"

    with interpreter(engine_python) as python:
        child = launched(python, tmp_path / "program.py", [], tmp_path, {}, log)
        assert child.wait(60) == 0, log.read_text()

    assert log.read_text() == f"{warm}\n"
