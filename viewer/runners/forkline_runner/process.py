"""The process of a run: ``input()`` in the project's code, which has no terminal, and signals.

A signal handler interrupts the main thread, which may hold the lock of the spool, of a checkpoint's write or
of the threading module. The handlers therefore only write a byte to a pipe that a thread reads.
"""

from __future__ import annotations

import builtins
import getpass
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from forkline_runner.messages import Refused, english, message

if TYPE_CHECKING:
    from forkline_runner.reporting import Questions


INTERRUPT, TERMINATE = b"i", b"t"


class InputDuringPreflight(BaseException):
    """The project's code requests input while a preflight check loads it. Not an ``Exception``."""

    def __init__(self, prompt: object) -> None:
        self.message = message("runner.input_during_preflight", prompt=repr(str(prompt).strip()))
        super().__init__(english(self.message))


class AnswerStream(io.TextIOBase):
    """A standard input whose lines are a person's answers.

    Reading all of it returns nothing: programs do so to find out whether something was piped to them.
    """

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def readable(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]
        return answer(self._questions, "") + "\n"

    def read(self, size: int | None = -1, /) -> str:
        return ""

    def __next__(self) -> str:  # type: ignore[override]
        raise StopIteration


def ask_a_person(questions: Questions) -> None:
    """Make every ``input()`` ask through these questions."""

    def asked(prompt: object = "", /) -> str:
        return answer(questions, str(prompt))

    builtins.input = asked
    # Code that imported the built-in function earlier reads from here.
    sys.stdin = AnswerStream(questions)
    _refuse_passwords()


def refuse_during_preflight() -> None:
    """Make every ``input()`` raise InputDuringPreflight."""

    def refused(prompt: object = "", /) -> str:
        raise InputDuringPreflight(prompt)

    builtins.input = refused
    _refuse_passwords()


def answer(questions: Questions, prompt: str) -> str:
    """Return a person's answer as one line."""
    return " ".join(questions.ask("program_input", prompt.strip() or "Input").splitlines())


def _refuse_passwords() -> None:
    """Refuse ``getpass``: an answer is stored and shown, and a password must not be."""

    def refused(prompt: str = "Password: ", stream: Any = None) -> str:
        raise Refused("runner.password_input", prompt=repr(prompt.strip()))

    getpass.getpass = refused


def listen_for_signals(interrupted: Callable[[], object], terminated: Callable[[], object]) -> None:
    """Raise KeyboardInterrupt in the main thread at the first signal, and call back in another thread.

    ``interrupted`` is called at the first SIGINT, ``terminated`` at the first SIGTERM.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    sent: set[int] = set()

    def handle(number: int, frame: FrameType | None) -> None:
        # The byte is written first: another signal may interrupt this handler and raise.
        with suppress(BlockingIOError):
            os.write(write, INTERRUPT if number == signal.SIGINT else TERMINATE)
        if not sent:
            sent.add(number)
            raise KeyboardInterrupt

    def wait() -> None:
        waiting = {INTERRUPT: interrupted, TERMINATE: terminated}
        while waiting:
            callback = waiting.pop(os.read(read, 1), None)
            if callback:
                callback()

    threading.Thread(target=wait, name="interrupts", daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
