"""Further processes that read files for an import of hundreds: parsing holds the interpreter's one lock.

The parent writes turns, the child answers each: frames of MessagePack, each behind its length in four
bytes. The child imports neither Django nor an engine, opens files only for reading, and ends with its
input, or when nobody has asked for a while. Where it dies, the parent reads what it was given.
"""

import atexit
import fcntl
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from viewer.providers.json_directory import JsonDirectory
from viewer.providers.packing import Packed, read_packed
from viewer.providers.snapshot import Entry, Fault, Limits

ROOT = Path(__file__).resolve().parent.parent.parent
# Room for some answers, so that the child need not wait for the parent.
PIPE_BYTES = 1024 * 1024
# A child that nobody asked for so long ends.
IDLE_SECONDS = 300
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", None)


class Turn(msgspec.Struct, array_like=True):
    """A few entries, where they stand, and how much of them to read."""

    path: str
    limits: Limits
    entries: Sequence[Entry]


class Answer(msgspec.Struct):
    """What one list of entries came to."""

    read: list[Packed] = []
    faults: list[Fault] = []


_turn = msgspec.msgpack.Decoder(Turn)
_answer = msgspec.msgpack.Decoder(Answer)


class Helper:
    """The parent's side. ``waiting`` are the turns that were sent and not answered yet, oldest first."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from viewer.providers.helper import serve; serve()"]
        self._child = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # A Ctrl-C is the parent's to answer: the child ends with its input.
            start_new_session=True,
        )
        assert self._child.stdin and self._child.stdout, "Both are pipes."
        self._input, self._output = self._child.stdin, self._child.stdout
        if _SET_PIPE_SIZE is not None:
            fcntl.fcntl(self._output, _SET_PIPE_SIZE, PIPE_BYTES)
        self.waiting: list[Turn] = []

    @property
    def pid(self) -> int:
        return self._child.pid

    def is_ready(self) -> bool:
        """Whether it lives and owes no answer."""
        return self._child.poll() is None and not self.waiting

    def end(self) -> None:
        """End the child. What it had not answered is lost."""
        for pipe in (self._input, self._output):
            pipe.close()
        self._child.kill()
        self._child.wait()

    def send(self, turn: Turn) -> None:
        """Have these read. Raises OSError where the child is gone."""
        self.waiting.append(turn)
        _write(self._input, msgspec.msgpack.encode(turn))

    def has_answered(self) -> bool:
        return bool(select.select([self._output], [], [], 0)[0])

    def answer(self) -> Answer:
        """The next answer, waited for. Raises OSError, EOFError or msgspec.MsgspecError where it is gone."""
        answer = _answer.decode(_read(self._output))
        self.waiting.pop(0)
        return answer


# Those that have nothing to do at the moment: a start takes as long as reading hundreds of files.
_idle: list[Helper] = []
# So many read for one import, or wait for the next: each takes some 60 MB.
MOST_HELPERS = 2
_lock = threading.Lock()


def start_ahead(count: int) -> None:
    """Start so many helpers that will be asked soon, less those that are idle. Does not wait for them."""
    with _lock:
        _idle.extend(_idle_or_new(count))


def _idle_or_new(count: int) -> list[Helper]:
    """So many, taken from those that are idle as long as there are any. Only with the lock."""
    taken: list[Helper] = []
    while _idle and len(taken) < count:
        helper = _idle.pop()
        if helper.is_ready():
            taken.append(helper)
        else:
            helper.end()
    return taken + [Helper() for _ in range(count - len(taken))]


@contextmanager
def helpers_at_hand(count: int) -> Iterator[list[Helper]]:
    """So many helpers of one's own for a while."""
    with _lock:
        helpers = _idle_or_new(count)
    try:
        yield helpers
    finally:
        with _lock:
            kept = [helper for helper in helpers if helper.is_ready()][: max(0, MOST_HELPERS - len(_idle))]
            _idle.extend(kept)
        for helper in helpers:
            if helper not in kept:
                helper.end()


@atexit.register
def end_idle_helpers() -> None:
    """End the helpers that have nothing to do."""
    with _lock:
        while _idle:
            _idle.pop().end()


def serve() -> None:
    """The child's side: answer turns until there are no more."""
    source, target = os.fdopen(0, "rb", buffering=0), os.fdopen(1, "wb", buffering=0)
    while select.select([source], [], [], IDLE_SECONDS)[0]:
        try:
            turn = _turn.decode(_read(source))
            _write(target, msgspec.msgpack.encode(_answered(turn)))
        except (EOFError, BrokenPipeError):
            return


def _answered(turn: Turn) -> Answer:
    with JsonDirectory(Path(turn.path), turn.limits) as provider:
        results = [read_packed(provider, entry) for entry in turn.entries]
    return Answer(
        [result for result in results if isinstance(result, Packed)],
        [result for result in results if isinstance(result, Fault)],
    )


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
