"""Starts and restarts the web server and the worker, and ends them with the process that started them."""

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from argparse import SUPPRESS, ArgumentParser
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from django.utils.translation import gettext as _

from viewer.validation import number_option

# Signals as bytes in a pipe, so that they are handled outside of signal handlers.
#
# A handler interrupts its thread anywhere. If that thread holds a lock that the handler needs, such as
# that of a ``threading.Event``, the process deadlocks. So the handlers here do nothing: Python writes
# each signal's number to the pipe.


MAX_NUMBERS = 1024


class SignalPipe:
    """The signals sent to this process. Create it once, in the main thread."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, _do_nothing)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable at a signal."""
        return self._read

    def taken(self) -> set[int]:
        """Return the numbers of the signals received since the last call."""
        with suppress(BlockingIOError):
            return set(os.read(self._read, MAX_NUMBERS))
        return set()


def _do_nothing(number: int, frame: object) -> None:
    """Handle a signal, so that it does not end the process."""


def call_at_signal(numbers: Iterable[signal.Signals], callback: Callable[[], object]) -> None:
    """Call ``callback`` once, in a new thread, when one of the signals is received."""
    pipe = SignalPipe(numbers)

    def wait() -> None:
        select.select([pipe], [], [])
        callback()

    threading.Thread(target=wait, name="signals", daemon=True).start()


# Ends a process when the process that started it exits, however it exits.


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


# Finds out which process listens on a port of this machine.


MAX_COMMAND_LENGTH = 120


def is_taken(host: str, port: int) -> bool:
    """Return whether a server could not listen on the port."""
    with socket.socket() as probe:
        # As the server does: a port whose last connections are still closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def holder_of(port: int) -> str:
    """Return the command and id of the process that listens on the port; empty if they are not visible."""
    import psutil

    try:
        listening = [one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
        pids = [one.pid for one in listening if one.laddr and one.laddr.port == port and one.pid]
        command = " ".join(psutil.Process(pids[0]).cmdline()) if pids else ""
    except psutil.Error:
        return ""
    shown = "".join(letter if letter.isprintable() else "�" for letter in command[:MAX_COMMAND_LENGTH])
    return f"{shown} (process {pids[0]})" if pids else ""


# Supervises programs: restarts each one that exits, and reports why it exited.


FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 30.0
# A program that ran longer is restarted without a long pause.
HEALTHY_SECONDS = 60.0
MAX_QUICK_ENDS = 8
STOP_SECONDS = 10.0
CLOSED_POLL_SECONDS = 0.1
MAX_LAST_LINES = 10
READ_BYTES = 65536
STOPPING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

Say = Callable[[str], object]


class GaveUp(Exception):
    """A program keeps exiting. The message says which."""


class Signals(Protocol):
    """The part of ``SignalPipe`` that is used here."""

    def fileno(self) -> int: ...

    def taken(self) -> set[int]: ...


@dataclass
class Program:
    """A program and its state. Times are on the monotonic clock."""

    name: str
    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    process: "subprocess.Popen[bytes] | None" = None
    output: int | None = None
    began_at: float = 0.0
    starts_at: float = 0.0
    quick_ends: int = 0
    last_lines: deque[bytes] = field(default_factory=lambda: deque(maxlen=MAX_LAST_LINES))


def begin(program: Program, lifeline: int) -> None:
    """Start the program in a new session, so that Ctrl-C does not reach it. It inherits the lifeline."""
    program.output, write = os.pipe()
    os.set_blocking(program.output, False)
    program.last_lines.clear()
    program.began_at = time.monotonic()
    try:
        program.process = subprocess.Popen(
            [*program.command, "--lifeline", str(lifeline)],
            cwd=program.folder,
            env=program.environment,
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=write,
            start_new_session=True,
            pass_fds=(lifeline,),
        )
    finally:
        os.close(write)


def wait(programs: Sequence[Program], signals: Signals, seconds: float | None) -> bool:
    """Wait for a signal, output or an exit, and forward the output. Return False at a signal to stop."""
    polled = select.poll()
    polled.register(signals, select.POLLIN)
    for program in programs:
        if program.output is not None:
            polled.register(program.output, select.POLLIN)
    polled.poll(None if seconds is None else max(0.0, seconds) * 1000)
    for program in programs:
        pass_on(program)
    return not signals.taken() & STOPPING


def pass_on(program: Program) -> None:
    """Write the program's output to this process's standard error."""
    while program.output is not None:
        try:
            data = os.read(program.output, READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            os.close(program.output)
            program.output = None
            return
        program.last_lines.extend(line for line in data.splitlines() if line.strip())
        with suppress(OSError, ValueError):
            sys.stderr.buffer.write(data)
            sys.stderr.buffer.flush()


def restart_due(programs: Sequence[Program], lifeline: int, say: Say) -> float | None:
    """Record exits and start due programs. Return the seconds until the next call, or None for no limit.

    Raises GaveUp if a program keeps exiting.
    """
    due: list[float] = []
    for program in programs:
        if program.process is not None and program.process.poll() is not None:
            note_end(program, say)
        if program.process is None and time.monotonic() >= program.starts_at:
            begin(program, lifeline)
        elif program.process is None:
            due.append(program.starts_at - time.monotonic())
        elif program.output is None:
            # A program closes its output shortly before it exits.
            due.append(CLOSED_POLL_SECONDS)
    return min(due, default=None)


def note_end(program: Program, say: Say) -> None:
    """Report how a program exited and when it restarts. Raises GaveUp if it has exited too often."""
    report = exit_report(program)
    healthy = time.monotonic() - program.began_at >= HEALTHY_SECONDS
    program.quick_ends = 1 if healthy else program.quick_ends + 1
    program.process = None
    if program.output is not None:
        # A process that it started may still hold the other end.
        os.close(program.output)
        program.output = None
    if program.quick_ends >= MAX_QUICK_ENDS:
        say(report)
        text = _("Giving up: the %(program)s ended %(count)s times, each within %(seconds)s s of its start.")
        values = {"program": program.name, "count": program.quick_ends, "seconds": int(HEALTHY_SECONDS)}
        raise GaveUp(text % values)
    pause = min(FIRST_PAUSE_SECONDS * 2 ** (program.quick_ends - 1), MAX_PAUSE_SECONDS)
    program.starts_at = time.monotonic() + pause
    say(f"{report}\n{_('It starts again in %(seconds)s s.') % {'seconds': f'{pause:g}'}}")


def exit_report(program: Program) -> str:
    """Return a text with the program's exit status or signal, its run time and its last output."""
    assert program.process is not None
    pass_on(program)
    status = program.process.returncode
    seconds = int(time.monotonic() - program.began_at)
    values = {"program": program.name, "status": status, "seconds": seconds, "signal": ""}
    text = _("The %(program)s ended with exit status %(status)s, %(seconds)s s after its start.")
    if status < 0:
        values["signal"] = signal_name(-status)
        text = _("The %(program)s was ended by %(signal)s, %(seconds)s s after its start.")
    if not program.last_lines:
        return f"{text % values} {_('It printed nothing.')}"
    lines = "\n".join(f"  {line.decode(errors='replace')}" for line in program.last_lines)
    return f"{text % values} {_('Its last output:')}\n{lines}"


def signal_name(number: int) -> str:
    """Return the name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return _("signal %s") % number


def supervise(programs: Sequence[Program], signals: Signals, lifeline: int, say: Say) -> None:
    """Supervise the programs until a signal says to stop. Raises GaveUp."""
    while wait(programs, signals, restart_due(programs, lifeline, say)):
        pass


def stop_all(programs: Sequence[Program], signals: Signals) -> None:
    """End the programs. Processes that they started in other sessions continue."""
    running = [program.process for program in programs if program.process]
    for process in running:
        process.terminate()
    end = time.monotonic() + STOP_SECONDS
    while any(process.poll() is None for process in running) and time.monotonic() < end:
        wait(programs, signals, 0.1)
    for process in running:
        if process.poll() is None:
            process.kill()
            process.wait()
    for program in programs:
        pass_on(program)
