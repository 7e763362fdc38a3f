"""The folder that holds all that is ours, made ready by whoever comes first."""

import fcntl
import os
import sys
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils.translation import ngettext

from viewer.data_folder.permissions import Restricted, restrict

__all__ = ["make_ready"]


def make_ready() -> None:
    """Create the data folder and bring its database up to date. Safe from several processes at once."""
    folder = Path(settings.DATA_DIR)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    say_restricted(folder, restrict(folder))
    lock = os.open(folder / "making_ready.lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            call_command("migrate", interactive=False, verbosity=0)
    finally:
        os.close(lock)


def say_restricted(folder: Path, found: Restricted) -> None:
    """Say on stderr how much was open to others. The next time, nothing is."""
    if found.paths:
        words = ngettext(
            "%(count)d file or folder in %(folder)s was open to other users. Now only its owner can read it.",
            "%(count)d files and folders in %(folder)s were open to other users."
            " Now only their owner can read them.",
            len(found.paths),
        )
        sys.stderr.write(words % {"count": len(found.paths), "folder": folder} + "\n")
