"""The bytes of files that this process may hold locks on."""

import subprocess
from collections.abc import Iterable
from pathlib import Path


def bytes_of(paths: Iterable[Path]) -> bytes:
    """What these files hold, one after the other, read by another process.

    One that closes a file gives up every lock it has on it, SQLite's too, which would not hear of it.
    See https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
    """
    return subprocess.run(["cat", *map(str, paths)], capture_output=True, check=True).stdout
