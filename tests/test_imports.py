"""Modules import each other in no circle, lazily or for types either. pyproject.toml has the other rules."""

import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

PACKAGES = (
    "checkpoint_site",
    "viewer",
    "forkline_guard",
    "forkline_runner",
    "forkline_crewai",
    "forkline_langgraph",
)
ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted(ROOT.glob("quality/**/__main__.py"))
]


def test_there_are_no_circles_of_modules() -> None:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # Raises CycleError with the modules of a circle.
    TopologicalSorter(imports).prepare()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_makefile_imports_without_settings(program: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    ended = subprocess.run(
        [sys.executable, "-c", f"import {program}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
