"""Runs exported tests and notebooks in a project's environment, without a model and a key."""

import sysconfig
from pathlib import Path

from tests.engine_runs.prewarmed import WarmPython, launched
from viewer.models import Run
from viewer.presentation.export import TESTS, file_name

# pytest is not part of the project's environment.
RUN_PYTEST = """
import sys
sys.path.append(sys.argv[2])
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-c", "/dev/null", sys.argv[1]]))
"""
RUN_CELLS = """
import json, sys
names = {"__name__": "__main__"}
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        exec(compile(cell["source"], cell["id"], "exec"), names)
"""


def exported(run: Run, name: str, folder: Path, entry_point: str) -> Path:
    """The path of an exported file with this entry point, which no project of the location names."""
    file = folder / file_name(run, TESTS[name])
    text = TESTS[name].write(run)
    plain, quoted = ("ENTRY_POINT = ''", f"ENTRY_POINT = '{entry_point}'")
    assert plain in text
    file.write_text(text.replace(plain, quoted))
    return file


def run_in(
    python: Path | WarmPython, project: Path, folder: Path, program: str, *arguments: str, **variables: str
) -> tuple[int, str]:
    """The exit status and output of a program in a project's environment and folder."""
    script, log = folder / "program.py", folder / "program.log"
    script.write_text(program)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    status = launched(python, script, arguments, project, environment | variables, log).wait(240)
    return status, log.read_text()


def run_exported(python: Path | WarmPython, project: Path, file: Path, **variables: str) -> tuple[int, str]:
    """The exit status and output of an exported test (``.py``, or a folder of them) or notebook."""
    program = RUN_CELLS if file.suffix == ".ipynb" else RUN_PYTEST
    site = sysconfig.get_path("purelib")
    return run_in(
        python, project, file if file.is_dir() else file.parent, program, str(file), site, **variables
    )
