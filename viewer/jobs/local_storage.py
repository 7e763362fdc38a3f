"""The files of jobs in local folders, one folder for each job or preflight check."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from django.conf import settings

from viewer.jobs.spool import (
    ANSWER,
    EVENTS,
    LOCK,
    LOG,
    REQUEST,
    RESERVED,
    SCRATCH,
    STOP,
    STORED,
    SpoolEvent,
    answer_name,
    read_events,
    reserved_event,
)
from viewer.locks.file_lock import FileLock
from viewer.models.runs import SCRATCH_STORE

# Held by the process that starts or follows a job.
FOLLOWER_LOCK = "follower.lock"
# A log longer than the first size is cut to the second.
MAX_LOG_BYTES, KEPT_LOG_BYTES = 16 * 1024 * 1024, 1024 * 1024
CUT = b"[Earlier output was cut because the log grew too long.]\n"
# Secrets are searched in chunks of whole lines, because some secrets span lines.
CHUNK_BYTES = 1024 * 1024
UUID_NAME = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class ScratchStore:
    """When a scratch store was last written, in seconds since the epoch, and its size in bytes."""

    written_at: float
    size: int


@dataclass(frozen=True, slots=True)
class LocalJobStorage:
    """A ``JobStorage`` in the folder at ``path``."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def runner_argument(self) -> str:
        return str(self.path)

    @property
    def runner_lock(self) -> str:
        return str(self.path / LOCK)

    def create(self) -> None:
        make_private_folder(self.path)

    def exists(self) -> bool:
        return self.path.exists()

    def delete(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def size(self) -> int:
        return sum(file.stat().st_size for file in self.path.glob("*") if file.is_file())

    def write_request(self, request: Mapping[str, Any]) -> None:
        write_private_file(self.path / REQUEST, json.dumps(request).encode())

    def write_stored_copy(self, data: bytes) -> None:
        write_private_file(self.path / STORED, data)

    @property
    def stored_copy(self) -> str:
        return str(self.path / STORED)

    def read_events(self, offset: int) -> tuple[list[SpoolEvent], int]:
        return read_events(self.path, offset)

    def reserved_event(self) -> SpoolEvent | None:
        return reserved_event(self.path)

    def delete_events(self) -> None:
        (self.path / EVENTS).unlink(missing_ok=True)

    def has_answer(self, number: int) -> bool:
        return (self.path / answer_name(number)).exists()

    def write_answer(self, number: int, text: str) -> None:
        path = self.path / answer_name(number)
        new = path.with_name(f"{path.name}.{uuid4().hex}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps({"text": text}))
        new.rename(path)

    def delete_answer(self, number: int) -> None:
        (self.path / answer_name(number)).unlink(missing_ok=True)

    def write_stop(self, limit: Mapping[str, Any]) -> None:
        stop = self.path / STOP
        if not stop.exists():
            new = stop.with_suffix(".new")
            new.write_text(json.dumps(limit), encoding="utf-8")
            new.replace(stop)

    def delete_stop(self) -> None:
        (self.path / STOP).unlink(missing_ok=True)

    def open_log(self) -> int:
        return os.open(self.path / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def read_log_end(self, size: int) -> tuple[bytes, bool]:
        try:
            with open(self.path / LOG, "rb") as file:
                length = file.seek(0, os.SEEK_END)
                file.seek(max(0, length - size))
                return file.read(), length <= size
        except FileNotFoundError:
            return b"", True

    def shorten_log(self) -> None:
        path = self.path / LOG
        try:
            if path.stat().st_size <= MAX_LOG_BYTES:
                return
            # The runner appends at the current end, so text printed meanwhile may precede the cut.
            with open(path, "a+b") as file:
                file.seek(-KEPT_LOG_BYTES, os.SEEK_END)
                last = file.read(KEPT_LOG_BYTES)
                file.truncate(0)
                file.write(CUT + (last.partition(b"\n")[2] or last))
        except FileNotFoundError:
            return

    def clean_up(self, redact: Callable[[str], str]) -> None:
        log = self.path / LOG
        if log.exists():
            clean = log.with_suffix(".clean")
            clean.touch(mode=0o600)
            with open(clean, "w", encoding="utf-8") as file:
                file.writelines(redact(chunk) for chunk in text_chunks(log))
            clean.replace(log)
        for name in (EVENTS, REQUEST, RESERVED, STOP, STORED):
            (self.path / name).unlink(missing_ok=True)
        # Includes answers whose writing was interrupted.
        for answer in self.path.glob(ANSWER.format(number="*") + "*"):
            answer.unlink(missing_ok=True)
        # A killed runner leaves its copy of the checkpoint there, with the secrets.
        shutil.rmtree(self.path / SCRATCH, ignore_errors=True)

    def scratch_store(self) -> ScratchStore | None:
        try:
            status = (self.path / SCRATCH_STORE).stat()
        except FileNotFoundError:
            return None
        return ScratchStore(status.st_mtime, status.st_size)

    def delete_scratch_store(self) -> None:
        (self.path / SCRATCH_STORE).unlink(missing_ok=True)

    def acquire_runner_lock(self) -> int | None:
        return FileLock(self.path / LOCK).acquire()

    def has_runner(self) -> bool:
        return FileLock(self.path / LOCK).is_held()

    def following(self) -> AbstractContextManager[bool]:
        return FileLock(self.path / FOLLOWER_LOCK).held()

    def is_followed(self) -> bool:
        return FileLock(self.path / FOLLOWER_LOCK).is_held()


def has_any_runner(data_folder: Path) -> bool:
    """Whether the runner of any job in this data folder is alive. Needs no database."""
    return any(LocalJobStorage(path).has_runner() for path in (data_folder / "jobs").glob("*"))


def storages(kind: Literal["jobs", "preflight"]) -> Iterator[LocalJobStorage]:
    """The files of every job or preflight check on disk. Folders whose name is not a UUID are not ours."""
    for path in (Path(settings.DATA_DIR) / kind).glob("*"):
        if UUID_NAME.fullmatch(path.name):
            yield LocalJobStorage(path)


def make_private_folder(folder: Path) -> None:
    """Make a folder and its parent, readable by the owner only. Raises OSError."""
    folder.parent.mkdir(exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    for one in (folder.parent, folder):
        # The folder may have existed, and the umask may have cleared bits.
        one.chmod(0o700)


def write_private_file(path: Path, data: bytes) -> None:
    """Write or replace a file, readable by the owner only. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


def text_chunks(path: Path) -> Iterator[str]:
    """The file's text in chunks of whole lines. Bytes that are not UTF-8 are replaced."""
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        while lines := file.readlines(CHUNK_BYTES):
            yield "".join(lines)
