"""Records which files any process opens, as the system reports them."""

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

IN_OPEN, IN_ISDIR, IN_NONBLOCK = 0x20, 0x40000000, os.O_NONBLOCK
_HEAD = struct.Struct("iIII")


@contextmanager
def opened_files(folder: str | Path) -> Iterator[list[str]]:
    """Yield a list that is filled with the paths below the folder that were opened during the block."""
    system = ctypes.CDLL(None, use_errno=True)
    watching = system.inotify_init1(IN_NONBLOCK)
    assert watching >= 0, os.strerror(ctypes.get_errno())
    folders: dict[int, Path] = {}
    opened: list[str] = []
    try:
        for path in (Path(folder), *Path(folder).rglob("*")):
            if path.is_dir():
                folders[system.inotify_add_watch(watching, os.fsencode(path), IN_OPEN)] = path
        yield opened
        try:
            while data := os.read(watching, 65536):
                while data:
                    watch, mask, _cookie, length = _HEAD.unpack_from(data)
                    name = os.fsdecode(data[_HEAD.size : _HEAD.size + length].rstrip(b"\0"))
                    if not mask & IN_ISDIR:
                        opened.append(str(folders[watch] / name))
                    data = data[_HEAD.size + length :]
        except BlockingIOError:
            pass
    finally:
        os.close(watching)
