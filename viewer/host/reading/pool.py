"""Starts the reader processes of this process, reuses them for the next import, and replaces them.

This is not a pool of ``concurrent.futures``, ``multiprocessing`` or pebble: those start a worker by importing
the main module again, which loads Django and takes seconds, and unpickle its replies, which can run code.
None of them passes a descriptor to a worker, or reports which file has ended a worker.
"""

import atexit
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from viewer.host.reading.wire import NOTE_BYTES, Batch, Close, Open, ReaderMessage, Replies, Reply, framed
from viewer.stores.protocol import Entry, ReadLimits

ROOT = Path(__file__).resolve().parents[3]
# Enough for several replies, so that a reader need not wait for this process.
PIPE_BYTES = 1024 * 1024
# The most readers of one import, and the most idle ones. Each takes about 60 MB.
MAX_READERS = 3
# How long to wait for a reply: seconds for disks and locks, and a multiple of the limit of processor time.
PATIENCE_SECONDS, PATIENCE_FACTOR = 10, 6
SECONDS_TO_CLOSE, SECONDS_TO_ABANDON = 2, 8
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", None)
_PASSED_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH")
# A further arena of the C library, for a second thread, would count as 64 MB of the limit on memory.
_ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}
# Statuses of a reader that the system has ended because it took too much processor time.
OUT_OF_TIME = {-signal.SIGPROF, -signal.SIGXCPU}
# Statuses of a reader that another program has ended. They say nothing about a file.
ENDED_BY_OTHERS = {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP}


class ReaderProcess:
    """One reader process, seen from the process that asks it.

    ``unanswered`` are the entries that it was sent, oldest first. ``silent_since`` is the monotonic time, in
    seconds, since which it has not answered.
    """

    def __init__(self) -> None:
        self.limits: ReadLimits | None = None
        self._is_on_server = False
        self.unanswered: deque[Entry] = deque()
        self.silent_since: float | None = None
        self._requests, passed = socket.socketpair()
        # A file, so that it can be read after the process has died.
        self._note = tempfile.TemporaryFile()  # noqa: SIM115
        with passed:
            self._child = subprocess.Popen(
                [sys.executable, "-c", _COMMAND.format(note=self._note.fileno())],
                cwd=ROOT,
                pass_fds=[self._note.fileno()],
                stdin=passed.fileno(),
                stdout=subprocess.PIPE,
                bufsize=0,
                env=_ONE_ARENA | {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ},
                # Ctrl-C is for this process. The reader ends when its input does.
                start_new_session=True,
            )
        assert self._child.stdout, "It is a pipe."
        self.replies = Replies(self._child.stdout)
        if _SET_PIPE_SIZE is not None:
            with suppress(OSError):
                fcntl.fcntl(self._child.stdout, _SET_PIPE_SIZE, PIPE_BYTES)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def output(self) -> int:
        return self.replies.pipe.fileno()

    def is_ready(self) -> bool:
        """Whether it is alive and has answered everything."""
        return self._child.poll() is None and not self.unanswered

    def open(self, message: Open, folder: int | None) -> None:
        """Make the process open this store. Raises OSError if the process has ended."""
        frame = framed(message)
        socket.send_fds(self._requests, [frame[:4]], [] if folder is None else [folder])
        self._requests.sendall(frame[4:])
        self.limits, self._is_on_server = message.limits, message.server is not None

    def send(self, message: ReaderMessage) -> None:
        """Send a message. Raises OSError if the process has ended."""
        if isinstance(message, Batch):
            self.unanswered.extend(message.entries)
        self._requests.sendall(framed(message))

    def status(self) -> int:
        """The exit status. Kills the process if it does not end within a second."""
        with suppress(subprocess.TimeoutExpired):
            return self._child.wait(timeout=1)
        self._child.kill()
        return -signal.SIGKILL

    def noted_row(self) -> tuple[str, float]:
        """The row whose values the last query has read last, and after how many seconds of processor time.

        The row is empty if the query has read none.
        """
        seconds, _space, row = os.pread(self._note.fileno(), NOTE_BYTES, 0).partition(b" ")
        with suppress(ValueError):
            return row.decode().strip(), float(seconds or 0)
        # The reader, which parses hostile bytes, wrote something else.
        return "", 0.0

    def close(self) -> bool:
        """Make the process close its store. Returns whether it has confirmed that."""
        with suppress(OSError, EOFError, msgspec.MsgspecError):
            self.send(Close())
            return self.reply(SECONDS_TO_CLOSE) is not None
        return False

    def end(self) -> None:
        """Kill the process. Unread replies are lost."""
        self._requests.close()
        self.replies.pipe.close()
        self._note.close()
        if self._is_on_server:
            # It terminates the session that it waits for.
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(timeout=SECONDS_TO_ABANDON)
        self._child.kill()
        # A process that is blocked in the kernel ends later.
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=1)

    def reply(self, seconds: float) -> Reply | None:
        """The next reply, as ``Replies.next`` returns it."""
        reply = self.replies.next(seconds)
        if reply is not None and (reply.read or reply.problem):
            self.unanswered.popleft()
        return reply


def patience(limits: ReadLimits) -> float:
    """How many seconds a reply may take, including the wait for a slow disk or a lock."""
    return PATIENCE_SECONDS + PATIENCE_FACTOR * limits.max_seconds


_COMMAND = "import checkpoint_site; from viewer.host.reading.program import serve; serve({note})"
# Readers without a store. A start takes as long as reading hundreds of files.
_idle: list[ReaderProcess] = []
_lock = threading.Lock()


def reader_count() -> int:
    """The number of reader processes of an import: one per core. It writes to the database meanwhile."""
    return min(MAX_READERS, len(os.sched_getaffinity(0)))


def start_ahead(count: int) -> None:
    """Have this many readers idle, for an import that may follow soon. Does not wait for them to start."""
    with _lock:
        _idle.extend(_idle_or_new(count, None))


def _idle_or_new(count: int, limits: ReadLimits | None) -> list[ReaderProcess]:
    """Return ``count`` readers: idle ones first, then new ones. The caller holds the lock."""
    taken: list[ReaderProcess] = []
    while _idle and len(taken) < count:
        reader = _idle.pop()
        # A process can only lower its limits.
        if reader.is_ready() and (limits is None or reader.limits in (None, limits)):
            taken.append(reader)
        else:
            reader.end()
    return taken + [ReaderProcess() for _ in range(count - len(taken))]


class Readers:
    """The readers of one import, all with the same store."""

    def __init__(self, message: Open, folder: int | None) -> None:
        self._message, self._folder = message, folder
        self.all: list[ReaderProcess] = []

    def want(self, count: int) -> list[ReaderProcess]:
        """At least this many readers with the store open. Raises OSError if none can be started."""
        while len(self.all) < count:
            with _lock:
                is_idle = bool(_idle)
                reader = _idle_or_new(1, self._message.limits)[0]
            try:
                reader.open(self._message, self._folder)
            except OSError:
                reader.end()
                # An idle reader may have ended meanwhile; a new one that ends at once would do so again.
                if not is_idle:
                    raise
                continue
            self.all.append(reader)
        return self.all

    @property
    def skipped(self) -> tuple[str, ...]:
        """The rows whose values are left out because they have ended a reader."""
        return self._message.skipped

    def skip(self, row: str) -> bool:
        """Make readers that are started from now on skip this row. Returns whether they did not before."""
        is_new = bool(row) and row not in self._message.skipped
        if is_new:
            self._message = msgspec.structs.replace(self._message, skipped=(*self._message.skipped, row))
        return is_new

    def drop(self, reader: ReaderProcess) -> None:
        """End a reader that must not be used again."""
        self.all.remove(reader)
        reader.end()

    def close(self) -> None:
        """Make the readers idle that can be used again, and end the others."""
        closed = [reader for reader in self.all if reader.is_ready() and reader.close()]
        with _lock:
            ready = [reader for reader in closed if reader.is_ready()]
            reused = ready[: max(0, MAX_READERS - len(_idle))]
            _idle.extend(reused)
        for reader in self.all:
            if reader not in reused:
                reader.end()
        self.all = []


@contextmanager
def readers_on(message: Open, folder: int | None) -> Iterator[Readers]:
    """Readers of this store, each started when it is first needed."""
    readers = Readers(message, folder)
    try:
        yield readers
    finally:
        readers.close()


def wait_for_any(readers: list[ReaderProcess], seconds: float) -> list[ReaderProcess]:
    """The readers that have answered or ended, after at most this time."""
    poll = select.poll()
    by_output = {reader.output: reader for reader in readers}
    for output in by_output:
        poll.register(output, select.POLLIN)
    ready = [by_output[output] for output, _event in poll.poll(seconds * 1000)]
    now = time.monotonic()
    for reader in readers:
        reader.silent_since = None if reader in ready else reader.silent_since or now
    return ready


@atexit.register
def end_idle_readers() -> None:
    """End the idle readers."""
    with _lock:
        while _idle:
            _idle.pop().end()
