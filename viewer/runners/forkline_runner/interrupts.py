"""SIGINT and SIGTERM, handled outside of their signal handlers.

A signal handler interrupts the main thread, which may hold the lock of the spool, of a checkpoint's write or
of the threading module. The handlers therefore only write a byte to a pipe that a thread reads.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

INTERRUPT, TERMINATE = b"i", b"t"


def listen(interrupted: Callable[[], object], terminated: Callable[[], object]) -> None:
    """Raise KeyboardInterrupt in the main thread at the first signal, and call back in another thread.

    ``interrupted`` is called at the first SIGINT, ``terminated`` at the first SIGTERM.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    sent: set[int] = set()

    def handle(number: int, frame: FrameType | None) -> None:
        # The byte is written first: another signal may interrupt this handler and raise.
        with suppress(BlockingIOError):
            os.write(write, INTERRUPT if number == signal.SIGINT else TERMINATE)
        if not sent:
            sent.add(number)
            raise KeyboardInterrupt

    def wait() -> None:
        waiting = {INTERRUPT: interrupted, TERMINATE: terminated}
        while waiting:
            callback = waiting.pop(os.read(read, 1), None)
            if callback:
                callback()

    threading.Thread(target=wait, name="interrupts", daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
