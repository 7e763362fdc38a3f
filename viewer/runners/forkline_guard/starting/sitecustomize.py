"""Installs the import guard in every Python that a job starts, then loads the environment's sitecustomize.

Python imports ``sitecustomize`` when it starts. This folder is on PYTHONPATH only for that.
"""

import importlib
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
RUNNERS = os.path.dirname(os.path.dirname(FOLDER))


def install() -> None:
    """Install the guard, and restore the import path."""
    sys.path.insert(0, RUNNERS)
    try:
        import forkline_guard

        forkline_guard.install_from(os.environ)
    finally:
        sys.path.remove(RUNNERS)
        sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != FOLDER]


def load_own() -> None:
    """Load the environment's own sitecustomize, if it has one."""
    ours = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        # The import in progress expects the module to be there.
        sys.modules.setdefault("sitecustomize", ours)


try:
    install()
except BaseException as error:
    # Python would continue after an error of this module, without the guard.
    try:
        message = f"The import guard was not installed: {type(error).__name__}: {error}\n"
        os.write(2, message.encode(errors="replace"))
    finally:
        os._exit(1)
load_own()
