"""A temporary data folder, with Django set up on it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def own_data(settings: str = "checkpoint_site.settings") -> Iterator[Path]:
    """Yield a temporary folder, with Django set up on a data folder inside it."""
    with tempfile.TemporaryDirectory(prefix="forkline-quality-") as folder:
        os.environ |= {"DATA_DIR": f"{folder}/data", "DJANGO_SETTINGS_MODULE": settings}
        import django

        django.setup()
        from viewer.data_folder import prepare_data_folder

        prepare_data_folder()
        yield Path(folder)


def run_apart(code: str, folder: str, *arguments: str) -> None:
    """Run Python code in another process, with its data folder inside this folder.

    Raises CalledProcessError if it fails.
    """
    settings = {"DATA_DIR": f"{folder}/data", "DJANGO_SETTINGS_MODULE": "checkpoint_site.settings"}
    command = [sys.executable, "-c", code, *arguments]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, check=True)
