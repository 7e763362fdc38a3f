"""The environment of processes that tests start."""

import os
from pathlib import Path


def environment_with(data_folder: Path | None = None, **variables: str) -> dict[str, str]:
    """Return this process's environment with Forkline's settings, a data folder and other variables.

    Each data folder has its own database, unless a variable names another one.
    """
    own = {"DJANGO_SETTINGS_MODULE": "checkpoint_site.settings"}
    if data_folder is not None:
        own |= {"DATA_DIR": str(data_folder), "DATABASE_URL": ""}
    return {**os.environ, **own, **variables}
