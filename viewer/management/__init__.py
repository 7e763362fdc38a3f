"""The base class of Forkline's commands: safe output, and one line instead of a traceback."""

import logging
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, handle_default_options
from django.db import connections
from django.db.utils import DatabaseError
from django.utils.translation import gettext as _

from viewer.cli import INVALID_USAGE, json_parts, plain, usage_error
from viewer.data_folder.failures import failure_text
from viewer.data_folder.permissions import what_changed
from viewer.messages.message import UserFacingError
from viewer.messages.translation import translate
from viewer.validation import brief, one_line

# Texts that are printed together, and how long the first of them waits for others.
MAX_PART, PART_SECONDS = 1_000, 0.1
# The exit status of a program that a closed pipe ends: 128 and the number of SIGPIPE.
PIPE_CLOSED = 141
# That of one that Ctrl-C ends.
INTERRUPTED = 130


class OutputFailed(Exception):
    """Standard output cannot be written. Its cause is the system's error."""


# Set once root was warned about, so that processes started by a command do not repeat the warning.
WARNED = "FORKLINE_WARNED_OF_ROOT"


class ForklineCommand(BaseCommand):
    """Prints safe lines, and one line on an error."""

    # System checks take as long as many commands, and concern few of them.
    requires_system_checks = []

    # Whether starts and ends of jobs are logged. They are not if a person waits for the answer.
    logs_jobs = False

    def get_version(self) -> str:
        """The version of Forkline; Django's own commands print Django's."""
        return str(settings.VERSION)

    def runs_programs(self, options: Mapping[str, Any]) -> bool:
        """Whether this call may start programs of a project."""
        return False

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command of this command line. Ends the process with one line on an error."""
        shows_traceback = "--traceback" in argv
        try:
            # Not marked as called from the command line, so that an invalid option raises CommandError.
            options = vars(self.create_parser(argv[0], argv[1]).parse_args(argv[2:]))
            arguments = options.pop("args", ())
            handle_default_options(Namespace(**options))
        except CommandError as error:
            text = usage_error(str(error))
            self._say_failure(text, {"json": "--json" in argv})
            self._end(text, INVALID_USAGE)
        try:
            self.execute(*arguments, **options)
        except CommandError as error:
            if shows_traceback:
                raise
            self._end(str(error), error.returncode)
        finally:
            connections.close_all()

    def _end(self, text: str, status: int) -> NoReturn:
        self.stderr.write(f"CommandError: {text}")
        sys.exit(status)

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command. Raises CommandError with one line; with --json, it is printed as well."""
        if not self.logs_jobs:
            logging.getLogger("forkline.jobs").setLevel(logging.WARNING)
        try:
            if self.runs_programs(options):
                warn_of_root()
            return super().execute(*args, **options)
        except OutputFailed as failed:
            let_go_of_stdout()
            if isinstance(failed.__cause__, BrokenPipeError):
                sys.exit(PIPE_CLOSED)
            text = _("The output could not be written: %(reason)s.")
            reason = getattr(failed.__cause__, "strerror", None) or str(failed.__cause__)
            raise CommandError(text % {"reason": reason}) from failed
        except KeyboardInterrupt as interrupt:
            text = _("Interrupted.")
            self._say_failure(text, options)
            raise CommandError(text, returncode=INTERRUPTED) from interrupt
        except Exception as error:
            text = brief(_reason(error))
            self._say_failure(text, options)
            status = error.returncode if isinstance(error, CommandError) else 1
            raise CommandError(text, returncode=status) from error

    def say(self, lines: Iterable[str]) -> None:
        """Print each as one line, the first ones as soon as they are known. Raises OutputFailed."""
        for part in in_parts(map(one_line, lines)):
            self._write("\n".join(part) + "\n")

    def say_json(self, document: Mapping[str, Any]) -> None:
        """Print one JSON document, the first parts as soon as they are known. Raises OutputFailed."""
        for part in in_parts(json_parts(document)):
            self._write("".join(part), ending="")
        self._write("\n")

    def say_file(self, text: str) -> None:
        """Print the text of a file unchanged, or safe lines if a terminal shows it. Raises OutputFailed."""
        self._write(plain(text) if self.stdout.isatty() else text)

    def _write(self, text: str, ending: str = "\n") -> None:
        try:
            self.stdout.write(text, ending=ending)
            self.stdout.flush()
        except OSError as error:
            raise OutputFailed from error

    def _say_failure(self, text: str, options: Mapping[str, Any]) -> None:
        if options.get("json"):
            with suppress(OutputFailed):
                self.say_json({"error": one_line(text)})


def in_parts(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts, in lists that are long enough to be written quickly, and short enough to be seen at once."""
    part, began = list[str](), time.monotonic()
    for text in texts:
        part.append(text)
        if len(part) >= MAX_PART or time.monotonic() - began > PART_SECONDS:
            yield part
            part, began = [], time.monotonic()
    if part:
        yield part


def _reason(error: Exception) -> str:
    """What an error says to a person. One that nobody expected is named, with how to see where it arose."""
    if isinstance(error, CommandError):
        return str(error)
    if isinstance(error, UserFacingError):
        return translate(error)
    # Python reads bytes of an argument that are not UTF-8 as surrogates.
    if isinstance(error, UnicodeEncodeError) and any(
        "\ud800" <= sign <= "\udfff" for sign in error.object[error.start : error.end]
    ):
        return _("This text is not UTF-8: %(text)s") % {"text": error.object}
    if text := failure_text(error):
        return text
    if isinstance(error, DatabaseError | OSError) and (text := what_changed()):
        return text
    values = {"kind": type(error).__name__, "error": error}
    return _("Unexpected error: %(kind)s: %(error)s. Repeat the command with --traceback.") % values


def warn_of_root() -> None:
    """Warn on stderr, once, that programs of projects run as root."""
    if os.geteuid() == 0 and WARNED not in os.environ:
        os.environ[WARNED] = "1"
        text = _("Warning: this runs as root, and so do the programs of projects. Use a separate account.")
        sys.stderr.write(f"{text}\n")


def let_go_of_stdout() -> None:
    """Discard the rest of the output, so that the interpreter's last flush cannot fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
