"""Finds every process of a job, also those that left its session, and ends them."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from viewer.jobs.execution.environment import MARKER
from viewer.jobs.spool import LOCK


def belongs_to(process: psutil.Process, folder: Path) -> bool:
    """Whether a live process is of the job whose folder this is: it has its marker, or its lock open.

    A process id that another program has got since has neither.
    """
    with suppress(psutil.Error, OSError):
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if process.environ().get(MARKER) == folder.name:
            return True
    with suppress(psutil.Error, OSError):
        lock = str(folder / LOCK)
        return any(file.path == lock for file in process.open_files())
    return False


def is_alive(process_id: int, folder: Path) -> bool:
    """Whether this process id is still that of the job."""
    try:
        return belongs_to(psutil.Process(process_id), folder)
    except psutil.Error:
        return False


def tree_of(folder: Path) -> set[psutil.Process]:
    """Every live process of the job, and what they started."""
    found = {process for process in psutil.process_iter() if belongs_to(process, folder)}
    return found | set(descendants(found))


def descendants(processes: Iterable[psutil.Process]) -> Iterator[psutil.Process]:
    for process in processes:
        with suppress(psutil.Error):
            yield from process.children(recursive=True)


def living(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    """Those that still run; a process id that was given to another program does not count."""
    found = set()
    for process in processes:
        with suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.add(process)
    return found


def interrupt_group(process_id: int, folder: Path) -> None:
    """Ctrl-C for the child and what it started in its session, if it is still there."""
    if is_alive(process_id, folder):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process_id, signal.SIGINT)


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """The signal for each that still runs."""
    for process in living(processes):
        with suppress(psutil.Error):
            process.send_signal(number)


def end_all(folder: Path, patience: float) -> None:
    """End what is left of the job: asked first, killed after ``patience`` seconds, until nothing is left."""
    left = tree_of(folder)
    if not left:
        return
    send(left, signal.SIGTERM)
    psutil.wait_procs(left, timeout=patience)
    for _attempt in range(5):
        left = living(left | tree_of(folder))
        if not left:
            return
        send(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=1)
