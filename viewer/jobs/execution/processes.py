"""Finds and ends every process of a job, including those that left its session."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress

import psutil

from viewer.jobs.execution.starting.environment import MARKER
from viewer.jobs.storage import JobStorage


def belongs_to(process: psutil.Process, storage: JobStorage) -> bool:
    """Whether a live process belongs to the job: its environment has the marker, or it has the lock open.

    A process that reuses the id of an exited one has neither.
    """
    with suppress(psutil.Error, OSError):
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if process.environ().get(MARKER) == storage.name:
            return True
    with suppress(psutil.Error, OSError):
        return has_open(process, storage.runner_lock)
    return False


def has_open(process: psutil.Process, path: str) -> bool:
    """Whether the process has this file open. Raises psutil.Error or OSError if that cannot be read."""
    if not psutil.LINUX:
        return any(file.path == path for file in process.open_files())
    # ``open_files`` reads the position and mode of each file as well, which takes three times as long.
    with os.scandir(f"/proc/{process.pid}/fd") as files:
        return any(_target(file.path) == path for file in files)


def _target(link: str) -> str:
    """Return where the link leads; empty if the file was closed in the meantime."""
    with suppress(OSError):
        return os.readlink(link)  # noqa: PTH115 - of every open file of the machine
    return ""


def is_alive(process_id: int, storage: JobStorage) -> bool:
    """Whether this process id still belongs to the job."""
    try:
        return belongs_to(psutil.Process(process_id), storage)
    except psutil.Error:
        return False


def is_gone(process_id: int | None, storage: JobStorage) -> bool:
    """Whether the runner has exited, for processes that did not start it.

    Its lock may outlive it, because processes that it started inherit the lock.
    """
    if storage.exists() and not storage.has_runner():
        return True
    if process_id is None:
        # Without files there is no lock to test, and without an id no process to look up.
        return not storage.exists()
    return not is_alive(process_id, storage)


def tree_of(storage: JobStorage) -> set[psutil.Process]:
    """Every live process of the job and its descendants."""
    found = {process for process in psutil.process_iter() if belongs_to(process, storage)}
    return found | set(descendants(found))


def descendants(processes: Iterable[psutil.Process]) -> Iterator[psutil.Process]:
    """Yield the descendants of the processes."""
    for process in processes:
        with suppress(psutil.Error):
            yield from process.children(recursive=True)


def living(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    """The processes that still run. Reused process ids do not count."""
    found = set()
    for process in processes:
        with suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.add(process)
    return found


def interrupt_group(process_id: int, storage: JobStorage) -> None:
    """Send SIGINT to the runner and what it started in its session, if the runner is alive."""
    if is_alive(process_id, storage):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process_id, signal.SIGINT)


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Send the signal to each process that still runs."""
    for process in living(processes):
        with suppress(psutil.Error):
            process.send_signal(number)


def end_all(storage: JobStorage, patience: float) -> None:
    """Send SIGTERM to all processes of the job, and SIGKILL to those that run after ``patience`` seconds."""
    left = tree_of(storage)
    if not left:
        return
    send(left, signal.SIGTERM)
    psutil.wait_procs(left, timeout=patience)
    for _attempt in range(5):
        left = living(left | tree_of(storage))
        if not left:
            return
        send(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=1)
