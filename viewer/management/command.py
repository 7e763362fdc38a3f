"""The base class of Forkline's commands: safe output, and one line instead of a traceback."""

import logging
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.utils import DatabaseError
from django.utils.translation import gettext as _

from viewer.cli.output import as_json, one_line, plain
from viewer.data_folder import DataFolderFailure, failure_text
from viewer.data_folder.identity import what_changed

# The exit status of a program that a closed pipe ends: 128 and the number of SIGPIPE.
PIPE_CLOSED = 141


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

    def runs_programs(self, options: Mapping[str, Any]) -> bool:
        """Whether this call may start programs of a project."""
        return False

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command. Raises CommandError with one line; with --json, it is printed as well."""
        if not self.logs_jobs:
            logging.getLogger("forkline.jobs").setLevel(logging.WARNING)
        try:
            if self.runs_programs(options):
                warn_of_root()
            return super().execute(*args, **options)
        except CommandError as error:
            text = one_line(str(error))
            self._say_failure(text, options)
            raise CommandError(text, returncode=error.returncode) from error
        except UnicodeEncodeError as error:
            # Python reads bytes of an argument that are not UTF-8 as surrogates.
            if not any("\ud800" <= sign <= "\udfff" for sign in error.object[error.start : error.end]):
                raise
            text = _("This text is not UTF-8: %(text)s") % {"text": one_line(error.object)}
            self._say_failure(text, options)
            raise CommandError(text) from error
        except (DatabaseError, DataFolderFailure, OSError) as error:
            if not (text := failure_text(error) or what_changed()):
                raise
            self._say_failure(text, options)
            raise CommandError(one_line(text)) from error
        except OutputFailed as failed:
            let_go_of_stdout()
            if isinstance(failed.__cause__, BrokenPipeError):
                sys.exit(PIPE_CLOSED)
            text = _("The output could not be written: %(reason)s.")
            reason = getattr(failed.__cause__, "strerror", None) or str(failed.__cause__)
            raise CommandError(text % {"reason": reason}) from failed

    def say(self, lines: Iterable[str]) -> None:
        """Print each as one line. Raises OutputFailed."""
        self._write("\n".join(map(one_line, lines)))

    def say_json(self, document: Mapping[str, Any]) -> None:
        """Print one JSON document. Raises OutputFailed."""
        self._write(as_json(document))

    def say_file(self, text: str) -> None:
        """Print the text of a file unchanged, or safe lines if a terminal shows it. Raises OutputFailed."""
        self._write(plain(text) if self.stdout.isatty() else text)

    def _write(self, text: str) -> None:
        try:
            self.stdout.write(text)
            self.stdout.flush()
        except OSError as error:
            raise OutputFailed from error

    def _say_failure(self, text: str, options: Mapping[str, Any]) -> None:
        if options.get("json"):
            with suppress(OutputFailed):
                self.say_json({"error": one_line(text)})


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
