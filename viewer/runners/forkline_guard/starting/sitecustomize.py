"""Installs the import guard in every Python that a job starts, then loads the environment's own module.

Python imports ``sitecustomize`` at its start. This folder is on PYTHONPATH for that alone.
"""

import importlib
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
PARTS = os.path.dirname(os.path.dirname(FOLDER))


def install() -> None:
    """Install the guard, and leave the import path as the project has it."""
    sys.path.insert(0, PARTS)
    try:
        from forkline_guard import guard

        guard.install_from(os.environ)
    finally:
        sys.path.remove(PARTS)
        sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != FOLDER]


def load_own() -> None:
    """Load the environment's own module of this name, where it has one."""
    ours = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        # The import that is under way looks for it.
        sys.modules.setdefault("sitecustomize", ours)


try:
    install()
finally:
    load_own()
