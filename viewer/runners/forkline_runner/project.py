"""The project's own code and interpreter: its entry points, its scores, and the version of its engine."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import forkline_guard
from forkline_runner.reporting import Refused

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter
    from viewer.engines.runner_protocol import Request

# The folder of the runners; a project's modules take precedence over those in it.
RUNNERS = Path(__file__).resolve().parents[1]
ENVIRONMENT = Path(sys.prefix).resolve()
# Bounds for finding a module that could not be imported.
MAX_FOLDERS = 500
MAX_FOLDER_DEPTH = 3
# Characters of a score that is a text.
MAX_TEXT = 1_000


def enter(folder: str) -> None:
    """Change to the project's folder, and put it and its ``src`` first on the import path. Raises Refused."""
    if not folder:
        return
    root = Path(folder)
    name, path = forkline_guard.replaced_module()
    if name:
        raise Refused("runner.present_code_imported", module=name, path=path)
    try:
        os.chdir(root)
    except OSError as error:
        raise Refused("runner.project_folder_failed", error=error) from error
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != RUNNERS]
    sys.path[:0] = [str(path) for path in (root, root / "src") if path.is_dir()]
    importlib.invalidate_caches()


def load(entry_point: str) -> Any:
    """Return the object that ``module:name`` names. Raises Refused if there is none."""
    module_name, _colon, name = entry_point.partition(":")
    if not module_name or not name:
        raise Refused("runner.entry_point_malformed", entry_point=entry_point)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise _not_found(entry_point, error) from error
    except Exception as error:
        raise Refused(
            "runner.entry_point_import_failed",
            entry_point=entry_point,
            kind=type(error).__name__,
            error=error,
        ) from error
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise Refused(
                "runner.entry_point_name_missing",
                entry_point=entry_point,
                module=module_name,
                name=name,
            )
        found = getattr(found, part)
    return found


def _not_found(entry_point: str, error: ModuleNotFoundError) -> Refused:
    """Return the refusal for a missing module, with the folder near the project that has it."""
    folder = folder_with(error.name or "")
    if folder is None:
        return Refused("runner.module_missing", entry_point=entry_point, module=error.name)
    return Refused("runner.module_in_other_folder", entry_point=entry_point, module=error.name, folder=folder)


def folder_with(module: str) -> Path | None:
    """Return a folder near the working folder from which the module can be imported, or None.

    Folders below are searched first, nearest first; then the two above.
    """
    name = module.partition(".")[0]
    if not name.isidentifier():
        return None
    here = Path.cwd()
    below = sorted(_folders_below(here), key=lambda path: len(path.parts))
    for folder in [*below, *here.parents[:2]]:
        package = folder / name
        if (folder / f"{name}.py").is_file() or (package.is_dir() and any(package.glob("*.py"))):
            return folder
    return None


def _folders_below(root: Path) -> Iterator[Path]:
    count = 0
    for current, folders, files in os.walk(root):
        depth = len(Path(current).relative_to(root).parts)
        is_environment = "pyvenv.cfg" in files
        may_have_source = depth < MAX_FOLDER_DEPTH and not is_environment
        folders[:] = sorted(
            name for name in folders if may_have_source and name.isidentifier() and name != "__pycache__"
        )
        if is_environment:
            continue
        count += 1
        if count > MAX_FOLDERS:
            return
        if depth:
            yield Path(current)


def is_in_project(path: Path) -> bool:
    """Return whether a file is part of the project's source, and not of an environment."""
    resolved = path.resolve()
    if "site-packages" in resolved.parts or resolved.is_relative_to(ENVIRONMENT):
        return False
    return resolved.is_relative_to(Path.cwd())


def report_start(
    reporter: Reporter, packages: Sequence[str], oldest: str, *, label: str, missing: str, too_old: str
) -> str:
    """Report the versions, and return that of the engine, which is the first of the packages.

    Raises Refused with the code ``missing`` or ``too_old`` if a package is missing, or the engine is older
    than ``oldest``.
    """
    try:
        version, *_ = [importlib.metadata.version(package) for package in packages]
    except importlib.metadata.PackageNotFoundError as error:
        raise Refused(missing, package=error.name, python=sys.executable) from error
    if is_older(version, oldest):
        raise Refused(too_old, version=version, oldest=oldest, python=sys.executable)
    reporter.write(
        "started",
        pid=os.getpid(),
        engine=label,
        engine_version=version,
        python_version=platform.python_version(),
    )
    return version


def is_older(version: str, than: str) -> bool:
    """Return whether a version such as 1.14.0a4 is older than another, by its first three numbers."""
    have, wanted = (tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (version, than))
    return have < wanted


def _takes_expected(function: Callable[..., Any]) -> bool:
    """Return whether a scoring function has a parameter ``expected``, for the expected answer."""
    import inspect

    try:
        return "expected" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def score_checkpoint(request: Request, reporter: Reporter) -> str:
    """Return the score as JSON: a number, a boolean or a text. Raises Refused for anything else."""
    reporter.write(
        "started", pid=os.getpid(), engine="", engine_version="", python_version=platform.python_version()
    )
    enter(request["folder"])
    function = load(request["function"])
    if not callable(function):
        raise Refused("runner.score_not_callable", function=request["function"])
    given = {"expected": request.get("expected", "")} if _takes_expected(function) else {}
    score = function(request["contents"], **given)
    # Numbers of other libraries, such as numpy's, are numbers as well.
    plain = score.item() if hasattr(score, "item") and not isinstance(score, int | float | str) else score
    is_number = isinstance(plain, int | float) and abs(plain) <= sys.float_info.max
    if not is_number and not isinstance(plain, str):
        raise Refused("runner.score_of_other_type", function=request["function"], type=type(score).__name__)
    return json.dumps(plain[:MAX_TEXT] if isinstance(plain, str) else plain)
