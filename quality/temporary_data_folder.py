"""A temporary data folder, with Django set up on it."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
