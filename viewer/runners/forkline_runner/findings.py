"""A preflight check: its report is one event, even if the check was refused, and it gets no keys.

The environment of its process has placeholders already. Here, the environment files that the project's code
or the engine reads yield placeholders as well, and no host is contacted.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkline_runner import project
from forkline_runner.recorded import CONNECTING
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter

Report = dict[str, Any]
# The kinds of requests that run nothing: check everything, list what a checkpoint would execute without
# importing it, or find what runs next after edits.
PREFLIGHT_KINDS = ("preflight", "effects", "next")
# Ends the process if an import does not return. The page that requested the check stops waiting
# much earlier.
MAX_SECONDS = 600
MAX_COMPONENTS = 300
MAX_NAMES = 60
# Set in the environment of a preflight check: the path of the project's environment file, or a dash.
PREFLIGHT = "FORKLINE_PREFLIGHT"
PLACEHOLDER = "placeholder-of-a-preflight-check"
_reading = threading.local()
_is_installed = False


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
        forbid_keys_and_hosts()
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
        report["imports"] += [name for name in set(sys.modules) - known if is_in_project(name)]


def is_in_project(name: str) -> bool:
    """Return whether this imported module is one of the project."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return bool(file) and project.is_in_project(Path(str(file)))


def forbid_keys_and_hosts() -> None:
    """In a preflight check, hide the values of environment files and refuse connections."""
    global _is_installed  # noqa: PLW0603
    if _is_installed or not os.environ.get(PREFLIGHT):
        return
    _is_installed = True
    with suppress(ImportError):
        _replace_values(importlib.import_module("dotenv.main").DotEnv)
    sys.addaudithook(_audit)


@contextmanager
def environment_files_allowed() -> Iterator[None]:
    """Allow this thread to read environment files in the block, even in a preflight check."""
    _reading.is_allowed = True
    try:
        yield
    finally:
        _reading.is_allowed = False


def _replace_values(reader: Any) -> None:
    """Make python-dotenv, which pydantic uses too, return placeholders for all values."""
    parse = reader.parse

    def placeholders(self: Any) -> Iterator[tuple[str, str | None]]:
        with environment_files_allowed():
            pairs = list(parse(self))
        for name, value in pairs:
            yield name, value and os.environ.get(name, PLACEHOLDER)

    reader.parse = placeholders


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path = os.fsdecode(arguments[0])
        if _is_environment_file(path) and not getattr(_reading, "is_allowed", False):
            raise FileNotFoundError(2, "A preflight check reads no environment file", path)
    elif event in CONNECTING:
        if not isinstance(arguments[0], socket.SocketType):
            raise socket.gaierror(socket.EAI_AGAIN, "A preflight check contacts no host")
        if arguments[0].family in (socket.AF_INET, socket.AF_INET6):
            raise ConnectionRefusedError(111, "A preflight check contacts no host")


def _is_environment_file(path: str) -> bool:
    name = Path(path).name
    if name == ".env" or name.startswith(".env."):
        return True
    given = os.environ.get(PREFLIGHT, "").split(os.pathsep)
    return any(name == Path(one).name and os.path.realpath(path) == os.path.realpath(one) for one in given)
