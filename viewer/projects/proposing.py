"""The project that a location's runs belong to, guessed from its surroundings. Reads; never runs anything."""

import os
from dataclasses import dataclass
from pathlib import Path

from viewer.engines import DEFAULT, all_engines, engine_named
from viewer.engines.entry_points import EntryPoint
from viewer.projects.import_folders import import_folder

# The walk upwards is bounded: a location may stand anywhere.
MAX_FOLDERS_UP = 12
MAX_FOLDERS_UP_FOR_ENVIRONMENT = 3
PROJECT_FILES = ("pyproject.toml", "langgraph.json")
INTERPRETERS = (".venv/bin/python", "venv/bin/python", ".venv/Scripts/python.exe", "venv/Scripts/python.exe")


@dataclass(frozen=True, slots=True)
class ProposedProject:
    """What was found around a location. ``None`` and an empty tuple mean: nothing was found."""

    folder: Path
    interpreter: Path | None
    environment_file: Path | None
    entry_points: tuple[EntryPoint, ...]


def propose_project(location_path: Path, engine: str = DEFAULT) -> ProposedProject:
    """The project around a location, for a person to confirm. Reads files, imports and runs none."""
    project = project_folder(location_path)
    folder = import_folder(project, location_path.absolute())
    files = [path / ".env" for path in (folder, project)]
    return ProposedProject(
        folder=folder,
        interpreter=find_interpreter(project),
        environment_file=next(filter(_is_file, files), None),
        entry_points=engine_named(engine).find_entry_points(folder),
    )


def project_folder(location_path: Path) -> Path:
    """The nearest folder upwards with a file of PROJECT_FILES, else with an environment, else the one around.

    Never the location itself: what is in it came with the checkpoints.
    """
    start = location_path.absolute()
    upwards = [folder for folder in start.parents[:MAX_FOLDERS_UP] if folder.parent != folder]
    for marks in (PROJECT_FILES, INTERPRETERS):
        for folder in upwards:
            if any(_is_file(folder / mark) for mark in marks):
                return folder
    return start.parent


def find_interpreter(folder: Path) -> Path | None:
    """The Python of the folder's environment; of one a workspace above that has the engine.

    The link is not followed: behind it stands an interpreter that knows nothing of the environment.
    """
    for above in (folder, *folder.parents[:MAX_FOLDERS_UP_FOR_ENVIRONMENT]):
        for python in (above / name for name in INTERPRETERS):
            can_run = _is_file(python) and os.access(python, os.X_OK)
            if can_run and (above == folder or engine_version(python)):
                return python
    return None


def python_version(interpreter: Path) -> str:
    """The version its environment was made with, such as ``3.11.2``; empty where that is not written."""
    try:
        lines = (interpreter.parent.parent / "pyvenv.cfg").read_text(errors="replace")[:10_000].splitlines()
    except OSError:
        return ""
    settings = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
    return settings.get("version") or settings.get("version_info", "")


def engine_version(interpreter: Path, engine: str = "") -> str:
    """The version of an engine in the interpreter's environment, any engine's without ``engine``.

    Empty if none is installed there.
    """
    distributions = [one.distribution for one in all_engines() if engine in ("", one.name)]
    environment = interpreter.parent.parent
    folders = [*environment.glob("lib/python3*/site-packages"), environment / "Lib" / "site-packages"]
    for folder in folders:
        for name in distributions:
            for installed in sorted(folder.glob(f"{name}-*.dist-info")):
                return installed.name.removeprefix(f"{name}-").removesuffix(".dist-info")
    return ""


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
