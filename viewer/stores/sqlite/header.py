"""Recognises SQLite files by their first bytes. Imports no SQLite library: see ``stores.__init__``."""

import os
import stat

from viewer.stores.errors import LocationUnreadable
from viewer.stores.safe_open import Found, open_file

_MAGIC = b"SQLite format 3\x00"


def check_is_sqlite(found: Found) -> None:
    """Raise LocationUnreadable if a location's file is not an SQLite file."""
    status = found.status
    start = b""
    if stat.S_ISREG(status.st_mode):
        if status.st_size == 0:
            raise LocationUnreadable("store.file_empty")
        try:
            start = _first_bytes(found.name, found.folder, len(_MAGIC))
        except OSError as error:
            raise LocationUnreadable("store.path_failed", why=str(error.strerror)) from None
    if start != _MAGIC:
        raise LocationUnreadable("store.unknown_kind")


def is_in_wal_mode(name: str, folder: int) -> bool:
    """Whether this file of an open folder is an SQLite file in WAL mode. Raises OSError."""
    header = _first_bytes(name, folder, 20)
    return header[:16] == _MAGIC and header[18:20] == b"\x02\x02"


def _first_bytes(name: str, folder: int, count: int) -> bytes:
    file = open_file(name, folder)
    try:
        return os.read(file, count)
    finally:
        os.close(file)
