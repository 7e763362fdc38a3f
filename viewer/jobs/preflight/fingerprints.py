"""What a look depends on, as one short text: where it is another one, the look has to be made anew."""

import os
import time
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path

from viewer.engines import ENGINES
from viewer.jobs.execution.engine_runner import runner_program
from viewer.models import Checkpoint, Location, Project

# Grows with what a look finds out, or how.
VERSION = 1
MAX_FILES = 4_000
MAX_FOLDERS = 2_000
MAX_DEPTH = 8
# What a project's code is made of: its source, and what it commonly reads while it is imported.
SOURCES = (".py", ".yaml", ".yml", ".toml", ".json", ".env")
NOT_SOURCE = {"node_modules", "site-packages", "__pycache__"}
# Where a project is too large to be looked through, a look counts for so long.
LARGE_PROJECT_SECONDS = 600


def fingerprint_of(checkpoint: Checkpoint | None, project: Project, entry_point: str, *more: str) -> str:
    """The same text as long as nothing has changed: the checkpoint, the interpreter and what is installed
    there, the environment file, the project's source, the entry point, our own child program, and
    whatever else is given.
    """
    parts = [
        str(VERSION),
        entry_point,
        *more,
        project.folder,
        project.interpreter,
        *_marks([Path(project.interpreter), *_installed(Path(project.interpreter))]),
        *(_marks([Path(project.environment_file)]) if project.environment_file else ()),
        *_marks(path for name in ENGINES for path in _own_source(runner_program(name))),
        *_source_marks(Path(project.folder), set(Location.objects.values_list("path", flat=True))),
    ]
    if checkpoint:
        parts += [str(checkpoint.pk), checkpoint.source, checkpoint.fingerprint, checkpoint.state]
    return sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:40]


def _marks(paths: Iterator[Path] | list[Path]) -> Iterator[str]:
    for path in paths:
        try:
            status = path.stat()
            yield f"{path} {status.st_size} {status.st_mtime_ns}"
        except OSError:
            yield f"{path} -"


def _installed(interpreter: Path) -> list[Path]:
    """The folders whose time changes when something is installed or taken out."""
    environment = interpreter.parent.parent
    return [environment / "pyvenv.cfg", *sorted(environment.glob("lib/python3*/site-packages"))]


def _own_source(runner: Path) -> list[Path]:
    return [runner, *sorted(runner.parent.glob("forkline_*/**/*.py"))]


def _source_marks(folder: Path, without: set[str]) -> Iterator[str]:
    """A mark of each source file; of a folder that has too many, one that changes now and then."""
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
    """No environment, no hidden folder, and no location: a run there writes nothing that is imported."""
    is_environment = (path / "pyvenv.cfg").exists()
    return not (
        path.name.startswith(".") or path.name in NOT_SOURCE or is_environment or str(path) in without
    )
