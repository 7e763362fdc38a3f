"""The reader processes of this process: started, asked, kept for the next import, replaced.

Not a pool of ``multiprocessing`` or pebble: those start a worker by importing the main module again, which is
Django and seconds, and read its answers as pickles, which run what they name.
"""

import atexit
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from viewer.stores.protocol import Entry, Limits
from viewer.stores.reader.wire import Answer, Answers, Batch, Close, Message, Open, framed

ROOT = Path(__file__).resolve().parents[3]
# Room for some answers, so that the child need not wait for the parent.
PIPE_BYTES = 1024 * 1024
# So many read for one import, or wait for the next: each takes some 60 MB.
MAX_READERS = 3
# How long to wait for an answer: for disks, for locks, and so many times the limit of processor time.
PATIENCE_SECONDS, PATIENCE_TIMES = 10, 6
SECONDS_TO_CLOSE = 2
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", None)
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH")
# What the system ends a reader with that took too much processor time.
TOO_LONG = {-signal.SIGPROF, -signal.SIGXCPU}
# What others end it with: that says nothing about a file.
ENDED_BY_OTHERS = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP}


class ReaderProcess:
    """The parent's side. ``unanswered`` are the entries that were sent, oldest first."""

    def __init__(self) -> None:
        self.limits: Limits | None = None
        self.unanswered: deque[Entry] = deque()
        self.quiet_since: float | None = None
        self._requests, given = socket.socketpair()
        with given:
            self._child = subprocess.Popen(
                [sys.executable, "-c", _COMMAND],
                cwd=ROOT,
                stdin=given.fileno(),
                stdout=subprocess.PIPE,
                bufsize=0,
                env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
                # A Ctrl-C is the parent's to answer: the child ends with its input.
                start_new_session=True,
            )
        assert self._child.stdout, "It is a pipe."
        self.answers = Answers(self._child.stdout)
        if _SET_PIPE_SIZE is not None:
            with suppress(OSError):
                fcntl.fcntl(self._child.stdout, _SET_PIPE_SIZE, PIPE_BYTES)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def output(self) -> int:
        return self.answers.pipe.fileno()

    def is_ready(self) -> bool:
        """Whether it lives and owes no answer."""
        return self._child.poll() is None and not self.unanswered

    def open(self, message: Open, folder: int) -> None:
        """Have it read from this store. Raises OSError where it is gone."""
        frame = framed(message)
        socket.send_fds(self._requests, [frame[:4]], [folder])
        self._requests.sendall(frame[4:])
        self.limits = message.limits

    def send(self, message: Message) -> None:
        """Raises OSError where it is gone."""
        if isinstance(message, Batch):
            self.unanswered.extend(message.entries)
        self._requests.sendall(framed(message))

    def status(self) -> int:
        """What it ended with. It is ended where it has not ended yet."""
        with suppress(subprocess.TimeoutExpired):
            return self._child.wait(timeout=1)
        self._child.kill()
        return -signal.SIGKILL

    def close(self) -> bool:
        """Have it close its store. Whether it has."""
        with suppress(OSError, EOFError, msgspec.MsgspecError):
            self.send(Close())
            return self.answer(SECONDS_TO_CLOSE) is not None
        return False

    def end(self) -> None:
        """End it. What it had not answered is lost."""
        self._requests.close()
        self.answers.pipe.close()
        self._child.kill()
        # One that hangs in the system's hands ends when that lets it go.
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=1)

    def answer(self, seconds: float) -> Answer | None:
        """The next answer, as ``Answers.next`` has it."""
        answer = self.answers.next(seconds)
        if answer is not None and (answer.read or answer.fault):
            self.unanswered.popleft()
        return answer


def patience(limits: Limits) -> float:
    """How many seconds an answer may take: a disk may hang, or a lock be held."""
    return PATIENCE_SECONDS + PATIENCE_TIMES * limits.max_seconds


_COMMAND = "import checkpoint_site; from viewer.stores.reader.program import serve; serve()"
# Those that have nothing to do at the moment: a start takes as long as reading hundreds of files.
_idle: list[ReaderProcess] = []
_lock = threading.Lock()


def start_ahead(count: int) -> None:
    """Start so many readers that will be asked soon, less those that are idle. Does not wait for them."""
    with _lock:
        _idle.extend(_idle_or_new(count, None))


def _idle_or_new(count: int, limits: Limits | None) -> list[ReaderProcess]:
    """So many, taken from those that are idle as long as there are any. Only with the lock."""
    taken: list[ReaderProcess] = []
    while _idle and len(taken) < count:
        reader = _idle.pop()
        # The limits of a process can only be lowered.
        if reader.is_ready() and (limits is None or reader.limits in (None, limits)):
            taken.append(reader)
        else:
            reader.end()
    return taken + [ReaderProcess() for _ in range(count - len(taken))]


class Readers:
    """The readers of one import, all of them on one store."""

    def __init__(self, message: Open, folder: int) -> None:
        self._message, self._folder = message, folder
        self.all: list[ReaderProcess] = []

    def want(self, count: int) -> list[ReaderProcess]:
        """At least so many readers, ready to be asked. Raises OSError where none can be started."""
        while len(self.all) < count:
            with _lock:
                reader = _idle_or_new(1, self._message.limits)[0]
            try:
                reader.open(self._message, self._folder)
            except OSError:
                # An idle one may have ended this very moment. A new one does not.
                reader.end()
                if reader.limits is None:
                    raise
                continue
            self.all.append(reader)
        return self.all

    def drop(self, reader: ReaderProcess) -> None:
        """End one that is not to be asked again."""
        self.all.remove(reader)
        reader.end()

    def close(self) -> None:
        """Keep those that can be asked again, and end the others."""
        closed = [reader for reader in self.all if reader.is_ready() and reader.close()]
        with _lock:
            ready = [reader for reader in closed if reader.is_ready()]
            kept = ready[: max(0, MAX_READERS - len(_idle))]
            _idle.extend(kept)
        for reader in self.all:
            if reader not in kept:
                reader.end()
        self.all = []


@contextmanager
def readers_on(message: Open, folder: int) -> Iterator[Readers]:
    """Readers of this store, started as they are wanted."""
    readers = Readers(message, folder)
    try:
        yield readers
    finally:
        readers.close()


def wait_for_any(readers: list[ReaderProcess], seconds: float) -> list[ReaderProcess]:
    """Those that have something to say, waited for as long as this. One that ended has, too."""
    polled = select.poll()
    by_output = {reader.output: reader for reader in readers}
    for output in by_output:
        polled.register(output, select.POLLIN)
    ready = [by_output[output] for output, _event in polled.poll(seconds * 1000)]
    now = time.monotonic()
    for reader in readers:
        reader.quiet_since = None if reader in ready else reader.quiet_since or now
    return ready


@atexit.register
def end_idle_readers() -> None:
    """End the readers that have nothing to do."""
    with _lock:
        while _idle:
            _idle.pop().end()
