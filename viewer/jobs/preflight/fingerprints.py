"""Fingerprints of everything that a preflight check depends on. A different one makes the check outdated."""

import os
import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path

from viewer.engines import ENGINES, all_engines
from viewer.jobs.execution.starting.engine_runner import runner_program
from viewer.models import Checkpoint, Location, Project

# Increase it when checks find something that earlier ones did not.
VERSION = 2
MAX_FILES = 4_000
MAX_FOLDERS = 2_000
MAX_DEPTH = 8
# Source code, and files that projects commonly read while they are imported.
SOURCES = (".py", ".yaml", ".yml", ".toml", ".json", ".env")
NOT_SOURCE = {"node_modules", "site-packages", "__pycache__"}
# How long a check counts if the project is too large to be searched.
LARGE_PROJECT_SECONDS = 600


def fingerprint_of(checkpoint: Checkpoint | None, project: Project, entry_point: str, *more: str) -> str:
    """Return a hash of everything that a preflight check depends on.

    That is the checkpoint, the entry point, the interpreter and its packages, the environment file, the
    sources of the project and the runner, and ``more``.
    """
    parts = [
        str(VERSION),
        entry_point,
        *more,
        project.folder,
        project.interpreter,
        *_marks([Path(project.interpreter), *_installed(Path(project.interpreter))]),
        *(_marks([Path(project.environment_file)]) if project.environment_file else ()),
        *_marks(_runner_sources()),
    ]
    without = set(Location.objects.values_list("path", flat=True))
    for folder in _source_folders(Path(project.folder)):
        parts += _source_marks(folder, without)
    if checkpoint:
        parts += [str(checkpoint.pk), checkpoint.source, checkpoint.fingerprint, checkpoint.state]
    return sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:40]


def _source_folders(folder: Path) -> list[Path]:
    """The project's folder, and those outside it that its configuration adds to the import path."""
    added = [one for engine in all_engines() for one in engine.source_folders(folder)]
    return [folder, *(one for one in dict.fromkeys(added) if not one.is_relative_to(folder.resolve()))]


def _marks(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        try:
            status = path.stat()
            yield f"{path} {status.st_size} {status.st_mtime_ns}"
        except OSError:
            yield f"{path} -"


def _installed(interpreter: Path) -> list[Path]:
    """The paths whose modification time changes when a package is installed or removed."""
    environment = interpreter.parent.parent
    return [environment / "pyvenv.cfg", *sorted(environment.glob("lib/python3*/site-packages"))]


def _runner_sources() -> list[Path]:
    """The programs of the engines' runners, and the modules of the packages next to them."""
    runners = list(dict.fromkeys(runner_program(name) for name in ENGINES))
    folders = dict.fromkeys(runner.parent for runner in runners)
    packages = [package for folder in folders for package in sorted(folder.glob("forkline_*"))]
    # Many times as fast as a pattern with "**".
    found = [walked for package in packages for walked in os.walk(package)]
    modules = [f"{folder}/{name}" for folder, _, names in found for name in names if name.endswith(".py")]
    return [*runners, *map(Path, sorted(modules))]


def _source_marks(folder: Path, without: set[str]) -> Iterator[str]:
    """A mark for each source file. If there are too many files, a mark that changes from time to time."""
    files = 0
    walked = os.walk(folder)
    for current, folders, names in islice(walked, MAX_FOLDERS):
        depth = len(Path(current).relative_to(folder).parts)
        folders[:] = sorted(
            name for name in folders if depth < MAX_DEPTH and _may_hold_source(Path(current) / name, without)
        )
        sources = [Path(current) / name for name in sorted(names) if name.endswith(SOURCES)]
        files += len(sources)
        if files > MAX_FILES:
            break
        yield from _marks(sources)
    else:
        if next(walked, None) is None:
            return
    yield f"too many files {int(time.time() / LARGE_PROJECT_SECONDS)}"


def _may_hold_source(path: Path, without: set[str]) -> bool:
    """Whether a folder may hold imported code: not an environment, a hidden folder or a location."""
    is_environment = (path / "pyvenv.cfg").exists()
    return not (
        path.name.startswith(".") or path.name in NOT_SOURCE or is_environment or str(path) in without
    )
