"""A second process that reads files for an import of hundreds: parsing holds the interpreter's one lock.

The parent writes a job and then lists of entries, the child answers each list: frames of MessagePack,
each behind its length in four bytes. The child imports neither Django nor an engine, opens files only
for reading, and ends with its input. Where it dies, the parent reads what it was given.
"""

import fcntl
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec

from viewer.providers.json_directory import JsonDirectory
from viewer.providers.packing import Packed, read_packed
from viewer.providers.snapshot import Entry, Fault, Limits

ROOT = Path(__file__).resolve().parent.parent.parent
# Room for some answers, so that the child need not wait for the parent.
PIPE_BYTES = 1024 * 1024
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", None)


class Job(msgspec.Struct):
    """Where to read, and how much of it."""

    path: str
    limits: Limits


class Answer(msgspec.Struct):
    """What one list of entries came to."""

    read: list[Packed] = []
    faults: list[Fault] = []


class Helper:
    """The parent's side. ``waiting`` are the lists that were sent and not answered yet, oldest first."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._job = Job(str(path), limits)
        self.waiting: list[Sequence[Entry]] = []

    def __enter__(self) -> Self:
        command = [sys.executable, "-c", "from viewer.providers.helper import serve; serve()"]
        self._child = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self._child.stdin and self._child.stdout, "Both are pipes."
        self._input, self._output = self._child.stdin, self._child.stdout
        if _SET_PIPE_SIZE is not None:
            fcntl.fcntl(self._output, _SET_PIPE_SIZE, PIPE_BYTES)
        _write(self._input, msgspec.msgpack.encode(self._job))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in (self._input, self._output):
            pipe.close()
        self._child.kill()
        self._child.wait()

    @property
    def pid(self) -> int:
        return self._child.pid

    def send(self, entries: Sequence[Entry]) -> None:
        """Have these read. Raises OSError where the child is gone."""
        self.waiting.append(entries)
        _write(self._input, msgspec.msgpack.encode(entries))

    def has_answered(self) -> bool:
        return bool(select.select([self._output], [], [], 0)[0])

    def answer(self) -> Answer:
        """The next answer, waited for. Raises OSError or msgspec.MsgspecError where the child is gone."""
        answer = msgspec.msgpack.decode(_read(self._output), type=Answer)
        self.waiting.pop(0)
        return answer


def serve() -> None:
    """The child's side: answer lists of entries until there are no more."""
    source, target = os.fdopen(0, "rb"), os.fdopen(1, "wb", buffering=0)
    job = msgspec.msgpack.decode(_read(source), type=Job)
    with JsonDirectory(Path(job.path), job.limits) as provider:
        while True:
            try:
                entries = msgspec.msgpack.decode(_read(source), type=list[Entry])
            except EOFError:
                return
            answer = Answer([], [])
            for entry in entries:
                result = read_packed(provider, entry)
                (answer.read if isinstance(result, Packed) else answer.faults).append(result)  # type: ignore[arg-type]
            _write(target, msgspec.msgpack.encode(answer))


def _write(pipe: IO[bytes], frame: bytes) -> None:
    data = memoryview(len(frame).to_bytes(4, "big") + frame)
    while data:
        data = data[pipe.write(data) :]


def _read(pipe: IO[bytes]) -> bytes:
    return _exactly(pipe, int.from_bytes(_exactly(pipe, 4), "big"))


def _exactly(pipe: IO[bytes], count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        part = pipe.read(count)
        if not part:
            raise EOFError("The other side has ended.")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
