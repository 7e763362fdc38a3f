"""The report of a preflight check: one event, even if the check was refused."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkline_runner import project
from forkline_runner.loaded_code import placeholders
from forkline_runner.refusal import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter

Report = dict[str, Any]
# Ends the process if an import does not return. The page that requested the check stops waiting
# much earlier.
MAX_SECONDS = 600
MAX_COMPONENTS = 300
MAX_NAMES = 60


def report_findings(reporter: Reporter, scratch: Path, find: Callable[[Report], None]) -> str:
    """Report what ``find`` adds to an empty report. A refusal is a finding, not a failure.

    Return the result of the job, which is empty. Nothing has run.
    """
    ending = threading.Timer(MAX_SECONDS, os._exit, (1,))
    ending.daemon = True
    ending.start()
    report: Report = {
        "python_version": platform.python_version(),
        "engine_version": "",
        "checkpoint_version": "",
        "sqlite_version": "",
        "effects": [],
        "is_complete": True,
        "imports": [],
        "components": [],
        "questions": [],
        "blocks": [],
        "notes": [],
    }
    try:
        placeholders.forbid()
        find(report)
    except Refused as refused:
        report["blocks"].append(refused.message)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    report["components"] = report["components"][:MAX_COMPONENTS]
    report["imports"] = sorted(set(report["imports"]))[:MAX_NAMES]
    reporter.write("preflight", report=report)
    return ""


@contextmanager
def recorded_imports(report: Report) -> Iterator[None]:
    """Add the project's modules that this block imports to the report."""
    known = set(sys.modules)
    try:
        yield
    finally:
        report["imports"] += [name for name in set(sys.modules) - known if _is_in_project(name)]


def _is_in_project(name: str) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None)
    return bool(file) and project.is_in_project(Path(str(file)))
