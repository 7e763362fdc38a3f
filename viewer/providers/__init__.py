"""What is on disk: checkpoints as their engine left them, read and never changed."""

import stat
from pathlib import Path

from viewer.providers.json_directory import JsonDirectory
from viewer.providers.snapshot import Limits, LocationUnreadable, Provider
from viewer.providers.sqlite_file import SqliteFile
from viewer.providers.untouched_sqlite import MAGIC
from viewer.words import gettext_noop as _


def provider_for(path: Path, limits: Limits | None = None) -> Provider:
    """The provider for what stands there, told by its content. Raises LocationUnreadable."""
    limits = limits or Limits()
    for is_one, provider in FORMATS:
        if is_one(path):
            return provider(path, limits)
    raise _why_none(path)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _is_sqlite(path: Path) -> bool:
    try:
        # Not a pipe: opening one would wait.
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


FORMATS = ((_is_folder, JsonDirectory), (_is_sqlite, SqliteFile))


def _why_none(path: Path) -> LocationUnreadable:
    try:
        status = path.stat()
    except FileNotFoundError:
        return LocationUnreadable(_("There is nothing at this path."))
    except OSError as error:
        return LocationUnreadable(_("The path cannot be opened: %(why)s."), why=str(error.strerror))
    except ValueError:
        return LocationUnreadable(_("The path cannot be opened: it is not a valid path."))
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        return LocationUnreadable(_("The file is empty. A store appears in it with its first checkpoint."))
    return LocationUnreadable(_("It is neither a folder nor an SQLite file."))
