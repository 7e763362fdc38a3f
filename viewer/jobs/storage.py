"""The files of a job or preflight check, behind one interface.

``viewer/jobs/spool.py`` says what each file holds. Only the implementation knows where they are.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from viewer.jobs import local_storage
from viewer.jobs.local_storage import ScratchStore
from viewer.jobs.spool import SpoolEvent
from viewer.models import Job, PreflightCheck


class JobStorage(Protocol):
    """What the server reads and writes of one job. Every method that writes raises OSError on failure."""

    @property
    def name(self) -> str:
        """The job's id. Every process of the job has it in its environment."""

    @property
    def runner_argument(self) -> str:
        """The argument with which a runner finds these files."""

    @property
    def runner_lock(self) -> str:
        """The path of the runner's lock in a list of a process's open files."""

    def create(self) -> None:
        """Create the storage, readable by the owner only. Does nothing if it exists."""

    def exists(self) -> bool: ...

    def delete(self) -> None:
        """Delete all files. Files that cannot be deleted are left."""

    def size(self) -> int:
        """The size of the files in bytes, without the runner's scratch folder."""

    def write_request(self, request: Mapping[str, Any]) -> None: ...

    def write_stored_copy(self, data: bytes) -> None:
        """Store the copy of a pruned checkpoint from which the run starts."""

    @property
    def stored_copy(self) -> str:
        """The path at which the runner reads that copy."""

    def read_events(self, offset: int) -> tuple[list[SpoolEvent], int]:
        """The complete events after ``offset`` bytes, and the offset behind them. Reads a limited amount."""

    def reserved_event(self) -> SpoolEvent | None:
        """The last event, if the disk was too full for it to be appended to the others."""

    def delete_events(self) -> None: ...

    def has_answer(self, number: int) -> bool: ...

    def write_answer(self, number: int, text: str) -> None:
        """Store an answer atomically. Raises FileNotFoundError if the job's files were deleted."""

    def delete_answer(self, number: int) -> None: ...

    def write_stop(self, limit: Mapping[str, Any]) -> None:
        """Ask the runner to stop before its next step. Idempotent."""

    def delete_stop(self) -> None: ...

    def open_log(self) -> int:
        """A descriptor that appends to the log. The caller closes it."""

    def read_log_end(self, size: int) -> tuple[bytes, bool]:
        """The last ``size`` bytes of the log, and whether that is all of it. Empty if there is no log."""

    def shorten_log(self) -> None:
        """Cut a log that has grown too long. The runner may continue to write."""

    def clean_up(self, redact: Callable[[str], str]) -> None:
        """Redact the log and delete every other file. Called when no process of the job runs any more."""

    def scratch_store(self) -> ScratchStore | None:
        """The job's scratch store; None if it has none."""

    def delete_scratch_store(self) -> None: ...

    def acquire_runner_lock(self) -> int | None:
        """A descriptor of the acquired lock, for the runner to inherit; None if a runner holds the lock."""

    def has_runner(self) -> bool:
        """Whether some process holds the runner's lock."""

    def following(self) -> AbstractContextManager[bool]:
        """Hold the lock of the process that starts or follows the job. Yields False if another has it."""

    def is_followed(self) -> bool: ...


def storage_of(owner: Job | PreflightCheck) -> JobStorage:
    """The files of this job or preflight check."""
    return local_storage.LocalJobStorage(owner.folder)


def job_storages() -> Iterator[JobStorage]:
    """The files of every job, also of jobs whose rows are gone."""
    return local_storage.storages("jobs")


def preflight_storages() -> Iterator[JobStorage]:
    """The files of every preflight check, also of checks whose rows are gone."""
    return local_storage.storages("preflight")


def has_any_runner(data_folder: Path) -> bool:
    """Whether the runner of any job in this data folder is alive. Needs no database."""
    return local_storage.has_any_runner(data_folder)
