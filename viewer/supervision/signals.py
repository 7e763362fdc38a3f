"""Signals as bytes in a pipe, so that they are handled outside of signal handlers.

A handler interrupts its thread anywhere. If that thread holds a lock that the handler needs, such as that of
a ``threading.Event``, the process deadlocks. So the handlers here do nothing: Python writes each signal's
number to the pipe.
"""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

MAX_NUMBERS = 1024


class SignalPipe:
    """The signals sent to this process. Create it once, in the main thread."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, _do_nothing)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable at a signal."""
        return self._read

    def taken(self) -> set[int]:
        """Return the numbers of the signals received since the last call."""
        with suppress(BlockingIOError):
            return set(os.read(self._read, MAX_NUMBERS))
        return set()


def _do_nothing(number: int, frame: object) -> None:
    """Handle a signal, so that it does not end the process."""


def call_at_signal(numbers: Iterable[signal.Signals], callback: Callable[[], object]) -> None:
    """Call ``callback`` once, in a new thread, when one of the signals is received."""
    pipe = SignalPipe(numbers)

    def wait() -> None:
        select.select([pipe], [], [])
        callback()

    threading.Thread(target=wait, name="signals", daemon=True).start()
