"""Signals as bytes of a pipe, to be read where locks may be taken.

A handler runs in the middle of whatever its thread does. Where that thread holds a lock that the handler
takes, such as that of a ``threading.Event``, the process hangs. So handlers here do nothing: Python itself
writes each signal's number to the pipe.
"""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

MAX_NUMBERS = 1024


class SignalPipe:
    """The signals that this process has been sent. To be made in the main thread, once."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, _do_nothing)

    def fileno(self) -> int:
        """What becomes readable with a signal."""
        return self._read

    def taken(self) -> set[int]:
        """The signals since the last call."""
        with suppress(BlockingIOError):
            return set(os.read(self._read, MAX_NUMBERS))
        return set()


def _do_nothing(number: int, frame: object) -> None:
    """A handler, so that the signal does not end the process."""


def call_at_signal(numbers: Iterable[signal.Signals], callback: Callable[[], object]) -> None:
    """Call back from a thread of its own when one of the signals has come, once."""
    pipe = SignalPipe(numbers)

    def wait() -> None:
        select.select([pipe], [], [])
        callback()

    threading.Thread(target=wait, name="signals", daemon=True).start()
