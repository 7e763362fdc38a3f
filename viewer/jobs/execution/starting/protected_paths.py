"""Protected paths, from which no run imports code: every location and the data folder."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from viewer.engines import all_engines
from viewer.messages.message import UserMessage
from viewer.models import Location, Project

STORE = Location.StoreKind.SQLITE
MAX_PTH_BYTES = 64 * 1024
# Variables that hold several code folders, or one.
CODE_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
SINGLE_VARIABLES = ("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX", "PYTHONSTARTUP")


def protected_paths(project: Project) -> list[str]:
    """The paths from which this project's runs may not import, shortest first.

    For a SQLite store these are the file and its folder, unless that folder contains the project's code.
    """
    code = {path for folder in code_folders(project) for path in _both(folder)}
    around = {above for folder in code for above in (folder, *folder.parents)}
    found = {*_both(Path(settings.DATA_DIR))}
    of_files = Location.objects.exclude(store_kind=Location.StoreKind.POSTGRESQL)
    for path, store_kind in of_files.values_list("path", "store_kind"):
        for form in _both(Path(path)):
            found.add(form)
            if store_kind == STORE and form.parent not in around:
                found.add(form.parent)
    return sorted(map(str, found), key=lambda path: (len(path), path))


def code_folders(project: Project) -> list[Path]:
    """The folders from which the project's code is imported: its own, ``src``, its entry points' packages."""
    folder = Path(project.folder)
    roots = [root for root in (folder, folder / "src") if root.is_dir()]
    found = [*roots, *(one for engine in all_engines() for one in engine.source_folders(folder))]
    for entry_point in project.entry_points:
        # A declared entry point is a file in one of the roots.
        packages = entry_point.partition(":")[0].split(".")[:-1] if ":" in entry_point else []
        for root in roots:
            for end in range(1, len(packages) + 1):
                package = root.joinpath(*packages[:end])
                found += [package] if package.is_dir() else []
    return found


def conflict_of(project: Project) -> UserMessage | None:
    """Why this project cannot run: its code, Python or environment file is in a protected path. Else None."""
    protected = [Path(path) for path in protected_paths(project)]
    for folder in code_folders(project):
        if cover := covering(folder, protected):
            return UserMessage(
                "job.project_in_protected_folder", {"folder": str(folder), "cover": str(cover)}
            )
    interpreter = Path(project.interpreter)
    if cover := covering(interpreter, protected) or covering(interpreter.parent, protected):
        return UserMessage("job.interpreter_in_protected_folder", {"cover": str(cover)})
    # Only Forkline writes to the data folder.
    locations = [path for path in protected if path not in _both(Path(settings.DATA_DIR))]
    if project.environment_file and (cover := covering(Path(project.environment_file), locations)):
        return UserMessage("job.environment_file_in_protected_folder", {"cover": str(cover)})
    for file, entry in _path_entries(interpreter):
        if cover := covering(entry, protected):
            return UserMessage(
                "job.python_path_in_protected_folder",
                {"entry": str(entry), "file": str(file), "cover": str(cover)},
            )
    return None


def covering(path: Path, protected: list[Path]) -> Path | None:
    """The protected path that equals or contains this one, with or without links followed."""
    for form in _both(path):
        for one in protected:
            if form.is_relative_to(one):
                return one
    return None


def without_protected(variables: dict[str, str], project: Project) -> dict[str, str]:
    """The variables without code folders inside a protected path, which Python would read at its start."""
    protected = [Path(path) for path in protected_paths(project)]

    def is_allowed(entry: str) -> bool:
        # An empty entry means the working directory, which is the project's folder.
        return covering(Path(project.folder) / entry, protected) is None

    clean = dict(variables)
    for name in set(CODE_VARIABLES) & variables.keys():
        clean[name] = os.pathsep.join(filter(is_allowed, variables[name].split(os.pathsep)))
    for name in set(SINGLE_VARIABLES) & variables.keys():
        if not is_allowed(variables[name]):
            del clean[name]
    return clean


def guard_list(project: Project) -> Path:
    """Write the project's protected paths to a file that the import guard reads. Returns the file."""
    folder = Path(settings.DATA_DIR) / "guard"
    folder.mkdir(exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    path, text = folder / f"{project.pk}.json", json.dumps(protected_paths(project))
    if not path.exists() or path.read_text() != text:
        # Several jobs may start at once. A temporary file is readable by the owner only.
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as new:
            new.write(text)
        Path(new.name).replace(path)
    return path


def _both(path: Path) -> set[Path]:
    """The path without ``..``, and the path with all links followed."""
    return {Path(os.path.normpath(path)), Path(os.path.realpath(path))}


def _path_entries(interpreter: Path) -> Iterator[tuple[Path, Path]]:
    """Pairs of a ``.pth`` file in the interpreter's environment and a folder that it adds to sys.path."""
    for folder in interpreter.parent.parent.glob("lib/python3*/site-packages"):
        for file in sorted(folder.glob("*.pth")):
            try:
                with open(file, encoding="utf-8", errors="replace") as opened:
                    lines = opened.read(MAX_PTH_BYTES).splitlines()
            except OSError:
                continue
            for line in lines:
                if line.strip() and not line.startswith(("#", "import ", "import\t")):
                    yield file, folder / line.strip()
