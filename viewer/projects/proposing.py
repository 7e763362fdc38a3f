"""Propose the project that a location's runs belong to, from the files around it. Nothing is run."""

import os
from dataclasses import dataclass
from pathlib import Path

from viewer.engines import DEFAULT, all_engines, engine_named
from viewer.engines.entry_points import EntryPoint
from viewer.projects.import_folders import import_folder

# The search upwards is bounded: a location may be anywhere.
MAX_FOLDERS_UP = 12
MAX_FOLDERS_UP_FOR_ENVIRONMENT = 3
PROJECT_FILES = ("pyproject.toml", "langgraph.json")
INTERPRETERS = (".venv/bin/python", "venv/bin/python", ".venv/Scripts/python.exe", "venv/Scripts/python.exe")


@dataclass(frozen=True, slots=True)
class ProposedProject:
    """What was found around a location. ``None`` and an empty tuple mean that nothing was found.

    ``is_found`` says whether anything marks ``folder`` as a project's.
    """

    folder: Path
    interpreter: Path | None
    environment_file: Path | None
    entry_points: tuple[EntryPoint, ...]
    is_found: bool = True


def propose_project(location_path: Path, engine: str = DEFAULT) -> ProposedProject:
    """Return the project around a location, for a person to confirm. Only reads files."""
    marked = _marked_folder(location_path)
    project = marked or location_path.absolute().parent
    folder = import_folder(project, location_path.absolute())
    return ProposedProject(
        folder=folder,
        interpreter=find_interpreter(project),
        environment_file=find_environment_file(folder, engine) or find_environment_file(project, engine),
        entry_points=engine_named(engine).find_entry_points(folder),
        is_found=marked is not None,
    )


def find_environment_file(folder: Path, engine: str = DEFAULT) -> Path | None:
    """Return the environment file that the project's configuration names, else its ``.env``, if any."""
    named = engine_named(engine).environment_file(folder)
    return next((path for path in (named, folder / ".env") if path is not None and _is_file(path)), None)


def _marked_folder(location_path: Path) -> Path | None:
    """Return the nearest parent folder with one of PROJECT_FILES, else with an environment, else None.

    Never the location itself: its files came with the checkpoints.
    """
    start = location_path.absolute()
    upwards = [folder for folder in start.parents[:MAX_FOLDERS_UP] if folder.parent != folder]
    for marks in (PROJECT_FILES, INTERPRETERS):
        for folder in upwards:
            if any(_is_file(folder / mark) for mark in marks):
                return folder
    return None


def find_interpreter(folder: Path) -> Path | None:
    """Return the Python of the folder's environment, else of a parent's environment that has the engine.

    The link is not resolved: the interpreter that it points to does not use the environment.
    """
    for above in (folder, *folder.parents[:MAX_FOLDERS_UP_FOR_ENVIRONMENT]):
        for python in (above / name for name in INTERPRETERS):
            can_run = _is_file(python) and os.access(python, os.X_OK)
            if can_run and (above == folder or engine_version(python)):
                return python
    return None


def python_version(interpreter: Path) -> str:
    """Return the Python version of its environment, such as ``3.11.2``; empty if it is not recorded."""
    try:
        lines = (interpreter.parent.parent / "pyvenv.cfg").read_text(errors="replace")[:10_000].splitlines()
    except OSError:
        return ""
    settings = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
    return settings.get("version") or settings.get("version_info", "")


def engine_version(interpreter: Path, engine: str = "") -> str:
    """Return the version of an engine in the interpreter's environment; without ``engine``, of any engine.

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
