"""The environment of processes that tests start."""

import os
from pathlib import Path


def environment_with(data_folder: Path | None = None, **variables: str) -> dict[str, str]:
    """Return this process's environment with Forkline's settings, a data folder and other variables."""
    own = {"DJANGO_SETTINGS_MODULE": "checkpoint_site.settings", **variables}
    if data_folder is not None:
        own["DATA_DIR"] = str(data_folder)
    return {**os.environ, **own}
