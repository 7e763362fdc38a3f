"""Ends a process when the process that started it exits, however it exits."""

import ctypes
import os
import signal
import sys
import threading
import time
from argparse import SUPPRESS, ArgumentParser

from viewer.validation import number_option

# How long a process may take to end after SIGTERM before it is killed.
GRACE_SECONDS = 10
PARENT_POLL_SECONDS = 1
PR_SET_PDEATHSIG = 1


def add_lifeline_argument(parser: ArgumentParser) -> None:
    """Declare ``--lifeline``, the descriptor of a pipe whose other end the parent holds."""
    parser.add_argument("--lifeline", type=number_option(0, 2**20), metavar="FD", help=SUPPRESS)


def hold(descriptor: int | None) -> None:
    """Send this process SIGTERM when the other end of the pipe is closed. Does nothing for None."""
    if descriptor is None:
        return
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_wait_for_end, args=(descriptor,), name="lifeline", daemon=True).start()


def _wait_for_end(descriptor: int) -> None:
    # Nothing is written. The read returns when the last writer closes the pipe.
    os.read(descriptor, 1)
    _end_this_process()


def _end_this_process() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def end_with_parent(parent: int | None) -> None:
    """Send this process SIGTERM when its parent, which has this id, exits. Does nothing for None."""
    if parent is None:
        return
    if not signal_at_parents_end(signal.SIGTERM):
        threading.Thread(target=_watch_parent, args=(parent,), name="parent", daemon=True).start()
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def signal_at_parents_end(number: signal.Signals) -> bool:
    """Make the kernel send this process a signal when its parent exits. Return False if it cannot.

    Survives ``exec``, and is not inherited by children.
    """
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0) == 0)


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_SECONDS)
    _end_this_process()
