"""The files of jobs and preflight checks, in one folder for each."""

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal
from uuid import uuid4

from django.conf import settings

from viewer.data_folder.locks import FileLock
from viewer.host.jobs import spool
from viewer.host.jobs.checkout import remove_committed
from viewer.host_requests import DraftFile
from viewer.models import Job, PreflightCheck
from viewer.models.runs import SCRATCH_STORE

# Held by the process that starts or follows a job.
FOLLOWER_LOCK = "follower.lock"
# A log longer than the first size is cut to the second.
MAX_LOG_BYTES, KEPT_LOG_BYTES = 16 * 1024 * 1024, 1024 * 1024
CUT = b"[Earlier output was cut because the log grew too long.]\n"
# Secrets are searched in chunks of whole lines. Some span lines, so a chunk ends at a line break that splits
# none: the context on both sides is redacted alike as one text and as two. If none of the last MAX_BREAKS
# line breaks is one, the chunk ends at the last.
CHUNK_BYTES, CONTEXT_CHARACTERS, MAX_BREAKS = 1024 * 1024, 20_000, 300
UUID_NAME = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# What a run causes that replaces or closes its folder, or what is in it. A full or failing disk, or a process
# without descriptors, has other errors.
CHANGED_FOLDER = {
    *(errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EPERM),
}
# What holds a person's input or values of checkpoints. ``has_leftovers`` asks for the request, so that is the
# last one.
DELETED_AT_THE_END = (
    *(spool.EVENTS, spool.GUARD, spool.RESERVED, spool.STOP, spool.STORED, spool.ANSWER.format(number="*")),
    *(spool.SCRATCH, spool.TEMPORARY, spool.REQUEST),
)


@dataclass(frozen=True, slots=True)
class JobStorage:
    """The files of one job or preflight check, in the folder at ``path``; ``spool`` says what each holds.

    Every method that writes raises OSError on failure.
    """

    path: Path

    @property
    def name(self) -> str:
        """The job's id. Every process of the job has it in its environment."""
        return self.path.name

    @property
    def runner_argument(self) -> str:
        """The argument with which a runner finds these files."""
        return str(self.path)

    @property
    def runner_lock(self) -> str:
        """The path of the runner's lock in a list of a process's open files."""
        return str(self.path / spool.LOCK)

    def create(self) -> None:
        """Create the storage, readable by the owner only. Does nothing if it exists."""
        self.refuse_link()
        make_private_folder(self.path)

    def refuse_link(self) -> None:
        """Raise NotADirectoryError if a run has replaced its folder by a link, which may lead anywhere."""
        if self.path.is_symlink():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self.path))

    def was_changed(self, error: OSError) -> bool:
        """Whether the error is that a run has replaced or closed its folder, or what is in it."""
        if error.errno not in CHANGED_FOLDER or not isinstance(error.filename, str | Path):
            return False
        is_inside = Path(error.filename).is_relative_to(self.path)
        # Otherwise, this process may open no job's folder.
        return is_inside and os.access(self.path.parent, os.R_OK | os.W_OK | os.X_OK)

    def exists(self) -> bool:
        return self.path.exists()

    def delete(self) -> None:
        """Delete all files, or what a run has put in their place. What cannot be deleted is left."""
        with suppress(OSError):
            delete_path(self.path)

    def size(self) -> int:
        """The size of the files in bytes, without those in folders."""
        return sum(one.st_size for one in self._statuses("*"))

    def _statuses(self, pattern: str) -> Iterator[os.stat_result]:
        """The status of each regular file with such a name that can be read now. A run may delete some."""
        for file in self.path.glob(pattern):
            with suppress(OSError):
                if stat.S_ISREG((status := file.lstat()).st_mode):
                    yield status

    def write_request(self, request: Mapping[str, Any]) -> None:
        write_private_file(self.path / spool.REQUEST, json.dumps(request).encode())

    def read_request(self) -> dict[str, Any]:
        """The request that the runner was given; empty if it cannot be read."""
        try:
            with open(spool.open_regular(self.path / spool.REQUEST), "rb") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write_stored_copy(self, data: bytes) -> None:
        """Store the copy of a pruned checkpoint from which the run starts."""
        write_private_file(self.path / spool.STORED, data)

    @property
    def stored_copy(self) -> str:
        """The path at which the runner reads that copy."""
        return str(self.path / spool.STORED)

    @property
    def checkout(self) -> Path:
        """The folder of a clean checkout, in which a job that runs a recorded commit has its project."""
        return self.path / spool.CHECKOUT

    def read_events(self, offset: int) -> tuple[list[spool.SpoolEvent], int]:
        """The complete events after ``offset`` bytes, and the offset behind them. Reads a limited amount.

        Raises OSError if a run has changed its folder.
        """
        self.refuse_link()
        return spool.read_events(self.path, offset)

    def reserved_event(self) -> spool.SpoolEvent | None:
        """The last event, if the disk was too full for it to be appended to the others."""
        return spool.reserved_event(self.path)

    def delete_events(self) -> None:
        (self.path / spool.EVENTS).unlink(missing_ok=True)

    def has_answer(self, number: int) -> bool:
        return (self.path / spool.answer_name(number)).exists()

    def write_answer(self, number: int, text: str) -> None:
        """Store an answer atomically. Raises FileNotFoundError if the job's files were deleted.

        Raises NotADirectoryError if its run has replaced its folder.
        """
        self.refuse_link()
        write_private_file(self.path / spool.answer_name(number), json.dumps({"text": text}).encode())

    def delete_answer(self, number: int) -> None:
        (self.path / spool.answer_name(number)).unlink(missing_ok=True)

    def write_stop(self, limit: Mapping[str, Any]) -> None:
        """Ask the runner to stop before its next step. Idempotent."""
        self.refuse_link()
        stop = self.path / spool.STOP
        if not stop.exists():
            write_private_file(stop, json.dumps(limit).encode())

    def delete_stop(self) -> None:
        (self.path / spool.STOP).unlink(missing_ok=True)

    def was_started(self) -> bool:
        """Whether a runner was started with these files, whatever the row says."""
        # A run may have replaced its log by a link that leads nowhere.
        return os.path.lexists(self.path / spool.LOG)

    def open_log(self) -> int:
        """A descriptor that appends to the log. The caller closes it.

        The log says that a runner was started, so it is on the disk before one is: a power failure may take
        the last commits of the database.
        """
        log = spool.open_regular(self.path / spool.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.fsync(log)
            for folder in (self.path, *self.path.parents[:2]):
                sync_folder(folder)
        except BaseException:
            os.close(log)
            raise
        return log

    def read_log_end(self, size: int) -> tuple[bytes, bool]:
        """The last ``size`` bytes of the log, and whether that is all of it.

        Empty if there is no log, or if its run has closed it.
        """
        try:
            with open(spool.open_regular(self.path / spool.LOG), "rb") as file:
                length = file.seek(0, os.SEEK_END)
                file.seek(max(0, length - size))
                return file.read(), length <= size
        except OSError as error:
            if not isinstance(error, FileNotFoundError) and not self.was_changed(error):
                raise
            return b"", True

    def shorten_log(self) -> None:
        """Cut a log that has grown too long. The runner may continue to write."""
        path = self.path / spool.LOG
        try:
            if path.lstat().st_size <= MAX_LOG_BYTES:
                return
            # The runner appends at the current end, so text printed meanwhile may precede the cut.
            with open(spool.open_regular(path, os.O_RDWR | os.O_APPEND), "r+b") as file:
                file.seek(-KEPT_LOG_BYTES, os.SEEK_END)
                last = file.read(KEPT_LOG_BYTES)
                file.truncate(0)
                file.write(CUT + (last.partition(b"\n")[2] or last))
        except FileNotFoundError:
            return

    def clean_up(self, redact: Callable[[str], str]) -> None:
        """Redact the log and delete every other file, but for those that the run wrote to its checkout.

        Called when no process of the job runs any more.
        """
        if not os.path.lexists(self.path):
            return
        # Refuses a link, and opens what a run has closed.
        self.create()
        log = self.path / spool.LOG
        clean = log.with_suffix(".clean")
        delete_path(clean)
        with (
            suppress(FileNotFoundError, PermissionError),
            open(spool.open_regular(log), encoding="utf-8", errors="replace", newline="") as read,
        ):
            with open(
                spool.open_regular(clean, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8"
            ) as file:
                file.writelines(redacted_chunks(read, redact))
            clean.replace(log)
        if log.is_symlink() or (log.exists() and not log.is_dir() and not os.access(log, os.R_OK)):
            # Replaced, not deleted: without a log, a row from a backup would start the job again.
            clean.touch(0o600)
            clean.replace(log)
        remove_committed(self.checkout)
        for name in DELETED_AT_THE_END:
            # A killed process leaves what SQLite has next to its file, and files that were not yet renamed.
            for path in self.path.glob(f"{name}*"):
                delete_path(path)

    def has_leftovers(self) -> bool:
        """Whether a person's input is left, because nobody has cleaned up."""
        return os.path.lexists(self.path / spool.REQUEST)

    def draft(self) -> DraftFile | None:
        """The job's scratch store, with what SQLite has next to it; None if it has none."""
        if not (found := list(self._statuses(f"{SCRATCH_STORE}*"))):
            return None
        written_at = datetime.fromtimestamp(max(one.st_mtime for one in found), UTC)
        return DraftFile(self.name, written_at, sum(one.st_size for one in found))

    def delete_draft(self) -> None:
        for path in self.path.glob(f"{SCRATCH_STORE}*"):
            delete_path(path)

    def acquire_runner_lock(self) -> int | None:
        """A descriptor of the acquired lock, for the runner to inherit; None if a runner holds the lock."""
        return FileLock(self.path / spool.LOCK).acquire()

    def has_runner(self) -> bool:
        """Whether some process holds the runner's lock. False if a run has closed its own lock."""
        try:
            return FileLock(self.path / spool.LOCK).is_held()
        except OSError as error:
            if not self.was_changed(error):
                raise
            return False

    def following(self) -> AbstractContextManager[bool]:
        """Hold the lock of the process that starts or follows the job. Yields False if another has it."""
        return FileLock(self.path / FOLLOWER_LOCK).held()

    def is_followed(self) -> bool:
        """Whether a process holds that lock. False if a run has closed its own folder or lock."""
        with suppress(OSError):
            return FileLock(self.path / FOLLOWER_LOCK).is_held()
        return False


def has_any_runner(data_folder: Path) -> bool:
    """Whether the runner of any job in this data folder is alive. Needs no database."""
    return any(JobStorage(path).has_runner() for path in (data_folder / "jobs").glob("*"))


def storages(kind: Literal["jobs", "preflight"]) -> Iterator[JobStorage]:
    """The files of every job or preflight check on disk, also of those whose rows are gone.

    Folders whose name is not a UUID are not ours, and neither is what a link leads to.
    """
    for path in (Path(settings.DATA_DIR) / kind).glob("*"):
        if UUID_NAME.fullmatch(path.name) and not path.is_symlink():
            yield JobStorage(path)


def make_private_folder(folder: Path) -> None:
    """Make a folder and its parent, readable by the owner only. Raises OSError."""
    folder.parent.mkdir(exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    for one in (folder.parent, folder):
        # The folder may have existed, and the umask may have cleared bits.
        one.chmod(0o700)


def sync_folder(folder: Path) -> None:
    """Have the disk store the names in a folder. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_private_file(path: Path, data: bytes) -> None:
    """Write or replace a file, readable by the owner only, as a whole or not at all. Raises OSError."""
    new = path.with_name(f"{path.name}.{uuid4().hex}")
    try:
        with open(spool.open_regular(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(data)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def delete_path(path: Path) -> None:
    """Delete a file or link of a job, or the folder that its run has put there. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def redacted_chunks(file: IO[str], redact: Callable[[str], str]) -> Iterator[str]:
    """The redacted text of a file in chunks of whole lines, between which no secret is split."""
    text = ""
    while lines := file.readlines(CHUNK_BYTES):
        text += "".join(lines)
        end = _end_of_chunk(text, redact)
        yield redact(text[:end])
        text = text[end:]
    yield redact(text)


def _end_of_chunk(text: str, redact: Callable[[str], str]) -> int:
    """The last place at which the text can be split; 0 if there is no line break that far from its end."""
    first = end = text.rfind("\n", 0, max(0, len(text) - CONTEXT_CHARACTERS)) + 1
    for _ in range(MAX_BREAKS):
        before, after = text[max(0, end - CONTEXT_CHARACTERS) : end], text[end : end + CONTEXT_CHARACTERS]
        if redact(before) + redact(after) == redact(before + after):
            return end
        end = text.rfind("\n", 0, max(0, end - 1)) + 1
    return first


def storage_of(owner: Job | PreflightCheck) -> JobStorage:
    """The files of this job or preflight check."""
    return JobStorage(owner.folder)
