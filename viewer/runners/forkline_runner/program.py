"""The program of a runner: reads a job's request, runs it with an engine, and reports to the job's spool.

    <the project's interpreter> runner.py <job folder> <the module of the engine's jobs>

It is started in a new session, with the environment of the job, standard output and error in the job's
log, and standard input closed. It may import the engine, the project's code, the standard library and the
packages of this folder, but neither Django nor the rest of Forkline.

1. It reads ``request.json``. ``Request`` in viewer/engines/runner_protocol.py says what its kinds do.
2. It installs the import guard for the request's ``protected`` paths before it imports anything else.
3. It appends events to the spool; viewer/host/jobs/spool.py lists their kinds. ``started`` comes first, and
   exactly one ``ended`` comes last, however the run ends.
4. It asks a person with a ``question`` event, and waits for the file that holds the answer.
5. It enforces the request's own limits, and stops when the file ``stop`` appears: both interrupt the run.
6. SIGINT cancels the run, with two seconds for the project's code to clean up. SIGTERM ends it at once.

Exit codes: 0 succeeded, 1 failed or refused, 130 cancelled, 143 terminated.

The module of an engine's jobs has the functions and steps of its ``EngineProgram``.
"""

from __future__ import annotations

import builtins
import getpass
import importlib.util
import io
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import forkline_guard
from forkline_runner import project
from forkline_runner.findings import PREFLIGHT_KINDS
from forkline_runner.reporting import (
    NO_SPACE,
    LimitCounter,
    Message,
    Questions,
    Refused,
    Reporter,
    described,
    english,
    message,
    secrets_of,
    short_texts,
)

if TYPE_CHECKING:
    from viewer.engines.runner_protocol import Request

SUCCEEDED, FAILED, CANCELLED, TERMINATED = 0, 1, 130, 143
CLEAN_UP_SECONDS = 2
FLUSH_SECONDS = 2
INTERRUPT, TERMINATE = b"i", b"t"


@dataclass(frozen=True)
class EngineProgram:
    """What differs from one engine to the next.

    ``run`` runs a request, given a scratch folder and the reporter, and returns its result as text. It raises
    Refused before anything has run. ``flush`` waits for the last checkpoint's write, and must work if the
    engine was never imported. ``steps`` are the kinds of steps that count towards a limit: their events are
    named ``<step>_started`` and ``<step>_completed``.
    """

    run: Callable[[Request, Path, Reporter], str]
    flush: Callable[[], object]
    steps: tuple[str, ...]


def main(engine: EngineProgram) -> NoReturn:
    """Run the job of the folder that the command line names, and exit."""
    folder = Path(sys.argv[1]).resolve()
    # The project's code may parse command-line arguments when it is imported, and these are not its own.
    del sys.argv[1:]
    status = run_job(engine, folder)
    sys.stdout.flush()
    sys.stderr.flush()
    # Do not wait for threads of the project's code.
    os._exit(status)


def run_job(engine: EngineProgram, folder: Path) -> int:
    """Run the job of this folder to its last event. Return the exit code."""
    spool = _spool_module()
    request: Request = json.loads((folder / spool.REQUEST).read_text())
    # Before anything of the project or of the checkpoint is imported.
    forkline_guard.install_from(os.environ)
    forkline_guard.protect(request.get("protected") or [])
    reporter = Reporter(spool.Spool(folder, hide=secrets_of(os.environ), shorten=short_texts), folder)
    reporter.questions = Questions(folder, reporter, spool.answer_name)
    if request["kind"] in PREFLIGHT_KINDS:
        refuse_during_preflight()
    else:
        ask_a_person(reporter.questions)
    flush = partial(_flush, engine)
    stop_raising = listen_for_signals(
        partial(_cancel, reporter, flush), partial(_leave, reporter, flush, TERMINATED)
    )
    maximum = (request.get("options") or {}).get("limits") or {}
    reporter.limits = LimitCounter(maximum, folder / spool.STOP, reporter.questions.is_waiting, engine.steps)
    reporter.limits.watch_time(reporter)
    try:
        try:
            if request["kind"] == "score":
                result = project.score_checkpoint(request, reporter)
            else:
                result = engine.run(request, folder / spool.SCRATCH, reporter)
        finally:
            # From here on, a signal would interrupt the last checkpoint's write, or the last event's.
            stop_raising()
    except BaseException as error:
        flush()
        return _end(reporter, error, folder)
    reporter.limits.lift()
    flush()
    reporter.end("succeeded", result=result)
    return SUCCEEDED


def _end(reporter: Reporter, error: BaseException, folder: Path) -> int:
    """Report the end of a run that did not succeed. Return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        reporter.end("cancelled")
        return CANCELLED
    try:
        ending = _ending(error, folder)
    except Exception:
        # Attributes of the project's errors run its code. One of httpx raises if it has no request.
        ending = described(error)
    shown = "" if isinstance(error, Refused) else "".join(traceback.format_exception(error))
    reporter.end("failed", error=ending, traceback=shown)
    return FAILED


def _ending(error: BaseException, folder: Path) -> str | Message:
    """Return why a run failed or was refused."""
    if isinstance(error, Refused | InputDuringPreflight):
        return error.message
    if isinstance(error, SystemExit):
        return message("runner.project_exited", code=repr(error.code))
    if path := full_disk(error, folder):
        return message("runner.disk_full", path=path)
    if place := unreachable(error):
        return message("runner.model_unreachable", error=described(error), **place)
    if type(error).__name__ == "PanicException":
        return message("runner.engine_panicked", error=error)
    return described(error)


def full_disk(error: BaseException | None, folder: Path) -> str:
    """Return a path on the full disk that caused an error, directly or not; empty for other errors."""
    for _depth in range(20):
        if error is None:
            return ""
        is_sqlite = getattr(error, "sqlite_errorname", "") == "SQLITE_FULL"
        if is_sqlite or (isinstance(error, OSError) and error.errno in NO_SPACE):
            named = getattr(error, "filename", None)
            return str(named or folder)
        error = error.__cause__ or error.__context__
    return ""


def unreachable(error: BaseException | None) -> dict[str, str]:
    """Return the address, and the model that was asked for, if a failed connection caused an error.

    Clients of models keep the request that could not be sent (httpx.RequestError, openai.APIConnectionError).
    """
    for _depth in range(20):
        if error is None:
            return {}
        request = getattr(error, "request", None) if isinstance(error, Exception) else None
        has_answer = getattr(error, "response", None) is not None
        if not has_answer and (url := getattr(request, "url", None)):
            return {"address": _without_secrets(str(url)), "model": _model_in(request)}
        error = error.__cause__ or error.__context__
    return {}


def _without_secrets(url: str) -> str:
    """The scheme, host, port and path: a query or a user may be a key."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _model_in(request: Any) -> str:
    """The model that the body of a request names; a dash if it names none."""
    try:
        body = json.loads(request.content)
    except Exception:
        return "-"
    return str(body.get("model") or "-") if isinstance(body, dict) else "-"


def _flush(engine: EngineProgram) -> None:
    try:
        engine.flush()
    except BaseException:
        traceback.print_exc()


def _cancel(reporter: Reporter, flush: Callable[[], None]) -> None:
    """After SIGINT, give the project's code time to clean up, but do not wait for a model's answer."""
    if reporter.limits:
        reporter.limits.lift()
    leaving = threading.Timer(CLEAN_UP_SECONDS, _leave, (reporter, flush, CANCELLED))
    leaving.daemon = True
    leaving.start()


def _leave(reporter: Reporter, flush: Callable[[], None], status: int) -> None:
    """Wait briefly for a checkpoint that is being written, report the end, and exit."""
    for last in (flush, partial(reporter.end, "cancelled")):
        # The main thread may hold the lock that this acquires, and never release it.
        ending = threading.Thread(target=last, daemon=True)
        ending.start()
        ending.join(FLUSH_SECONDS)
    os._exit(status)


def _spool_module() -> Any:
    """Return viewer/host/jobs/spool.py, loaded by path: a project may have its own package ``viewer``."""
    path = Path(__file__).resolve().parents[2] / "host" / "jobs" / "spool.py"
    spec = importlib.util.spec_from_file_location("forkline_spool", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ask_a_person(questions: Questions) -> None:
    """Make every ``input()`` ask through these questions: a run has no terminal."""

    def asked(prompt: object = "", /) -> str:
        return answer(questions, str(prompt))

    builtins.input = asked
    # Code that imported the built-in function earlier reads from here.
    sys.stdin = AnswerStream(questions)
    _refuse_passwords()


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


def answer(questions: Questions, prompt: str) -> str:
    """Return a person's answer as one line."""
    return " ".join(questions.ask("program_input", prompt.strip() or "Input").splitlines())


def refuse_during_preflight() -> None:
    """Make every ``input()`` raise InputDuringPreflight."""

    def refused(prompt: object = "", /) -> str:
        raise InputDuringPreflight(prompt)

    builtins.input = refused
    _refuse_passwords()


class InputDuringPreflight(BaseException):
    """The project's code requests input while a preflight check loads it. Not an ``Exception``."""

    def __init__(self, prompt: object) -> None:
        self.message = message("runner.input_during_preflight", prompt=repr(str(prompt).strip()))
        super().__init__(english(self.message))


def _refuse_passwords() -> None:
    """Refuse ``getpass``: an answer is stored and shown, and a password must not be."""

    def refused(prompt: str = "Password: ", stream: Any = None) -> str:
        raise Refused("runner.password_input", prompt=repr(prompt.strip()))

    getpass.getpass = refused


def listen_for_signals(
    interrupted: Callable[[], object], terminated: Callable[[], object]
) -> Callable[[], object]:
    """Raise KeyboardInterrupt in the main thread at the first signal, and call back in another thread.

    ``interrupted`` is called at the first SIGINT, ``terminated`` at the first SIGTERM. Signals only call back
    once the returned function was called.

    A signal handler interrupts the main thread, which may hold the lock of the spool, of a checkpoint's write
    or of the threading module. The handlers therefore only write a byte to a pipe that a thread reads.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    # Empty once no signal raises any more. A list needs no lock.
    raises = [True]

    def handle(number: int, frame: FrameType | None) -> None:
        # The byte is written first: another signal may interrupt this handler and raise.
        with suppress(BlockingIOError):
            os.write(write, INTERRUPT if number == signal.SIGINT else TERMINATE)
        if raises:
            raises.clear()
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
    return raises.clear
