"""The folders and files that no run imports anything from: every location, and our own data folder."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from viewer.messages.message import Words
from viewer.messages.message import gettext_noop as _
from viewer.models import Location, Project

STORE = Location.Provider.SQLITE
MAX_PTH_BYTES = 64 * 1024
# Variables that name folders of code, one or several.
CODE_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
SINGLE_VARIABLES = ("PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX", "PYTHONSTARTUP")


def protected_paths(project: Project) -> list[str]:
    """What this project's runs may not import from, shortest first.

    A folder of JSON checkpoints is protected with all below it. Of a SQLite store it is the file, and the
    folder that it is in unless the project's own code is there too.
    """
    code = {path for folder in code_folders(project) for path in _both(folder)}
    around = {above for folder in code for above in (folder, *folder.parents)}
    found = {*_both(Path(settings.DATA_DIR))}
    for path, provider in Location.objects.values_list("path", "provider"):
        for form in _both(Path(path)):
            found.add(form)
            if provider == STORE and form.parent not in around:
                found.add(form.parent)
    return sorted(map(str, found), key=lambda path: (len(path), path))


def code_folders(project: Project) -> list[Path]:
    """The folders that the project's code is imported from: its own, ``src``, its entry points' packages."""
    folder = Path(project.folder)
    roots = [root for root in (folder, folder / "src") if root.is_dir()]
    found = list(roots)
    for entry_point in project.entry_points:
        # Of a declared entry point this is a file, which is in one of the roots.
        packages = entry_point.partition(":")[0].split(".")[:-1] if ":" in entry_point else []
        for root in roots:
            for end in range(1, len(packages) + 1):
                package = root.joinpath(*packages[:end])
                found += [package] if package.is_dir() else []
    return found


def conflict_of(project: Project) -> Words | None:
    """Why nothing of this project can be imported: its code or Python lies in a location. None: it can."""
    protected = [Path(path) for path in protected_paths(project)]
    for folder in code_folders(project):
        if cover := covering(folder, protected):
            message = _(
                "The project's code in %(folder)s lies in %(cover)s, which holds checkpoints or Forkline's "
                "data, and nothing is imported from there. Add as location only the folder that the "
                "checkpoints are in."
            )
            return Words(message, {"folder": str(folder), "cover": str(cover)})
    interpreter = Path(project.interpreter)
    if cover := covering(interpreter, protected) or covering(interpreter.parent, protected):
        message = _("The interpreter lies in %(cover)s, which holds checkpoints or Forkline's data.")
        return Words(message, {"cover": str(cover)})
    # Nobody else writes to our own folder: it is where the demo's file is.
    locations = [path for path in protected if path not in _both(Path(settings.DATA_DIR))]
    if project.environment_file and (cover := covering(Path(project.environment_file), locations)):
        message = _("The environment file lies in %(cover)s, which holds checkpoints.")
        return Words(message, {"cover": str(cover)})
    for file, entry in _path_entries(interpreter):
        if cover := covering(entry, protected):
            message = _(
                "The project's Python looks for modules in %(entry)s (%(file)s), which lies in %(cover)s: "
                "there are checkpoints or Forkline's data, and nothing is imported from there."
            )
            return Words(message, {"entry": str(entry), "file": str(file), "cover": str(cover)})
    return None


def covering(path: Path, protected: list[Path]) -> Path | None:
    """The protected path that this one is or lies below, as it is written or with links followed."""
    for form in _both(path):
        for one in protected:
            if form.is_relative_to(one):
                return one
    return None


def without_protected(variables: dict[str, str], project: Project) -> dict[str, str]:
    """The variables without folders of code that lie in a location: Python would read them at its start."""
    protected = [Path(path) for path in protected_paths(project)]

    def is_fine(entry: str) -> bool:
        # An empty entry is the folder that the child starts in.
        return covering(Path(project.folder) / entry, protected) is None

    clean = dict(variables)
    for name in set(CODE_VARIABLES) & variables.keys():
        clean[name] = os.pathsep.join(filter(is_fine, variables[name].split(os.pathsep)))
    for name in set(SINGLE_VARIABLES) & variables.keys():
        if not is_fine(variables[name]):
            del clean[name]
    return clean


def guard_list(project: Project) -> Path:
    """A file with the project's protected paths as they are now, for every Python that its jobs start."""
    folder = Path(settings.DATA_DIR) / "guard"
    folder.mkdir(exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    path, text = folder / f"{project.pk}.json", json.dumps(protected_paths(project))
    if not path.exists() or path.read_text() != text:
        # Several jobs may start at once: each writes a file of its own, readable by its owner alone.
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as new:
            new.write(text)
        Path(new.name).replace(path)
    return path


def _both(path: Path) -> set[Path]:
    """The path without ``..``, and with all links followed."""
    return {Path(os.path.normpath(path)), Path(os.path.realpath(path))}


def _path_entries(interpreter: Path) -> Iterator[tuple[Path, Path]]:
    """The folders that ``.pth`` files of the interpreter's environment put on its import path."""
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
