"""Supervises programs: restarts each one that exits, and reports why it exited."""

import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from django.utils.translation import gettext as _

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
