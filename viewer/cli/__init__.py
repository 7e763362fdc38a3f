"""The subcommands of ``manage.py checkpoints``: what each has, its arguments and its output.

They are in the modules of ``commands``.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

from django.core.management.base import CommandError, CommandParser
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from viewer import validation


@dataclass(frozen=True, slots=True)
class Output:
    """``document`` is what ``--json`` prints, ``lines`` what a person reads, ``status`` the exit status.

    Each line is printed as one line, whatever file, branch or unit names it holds. ``file`` is the text of a
    file, printed instead of the lines, and ``file_name`` a name for it. Lines and lists of the document may
    be iterators, which are printed as they yield; only one of the two is consumed.
    """

    document: Mapping[str, Any]
    lines: Iterable[str]
    status: int = 0
    file: str = ""
    file_name: str = ""
    # The jobs for which ``--wait`` waits, if the command has not started them.
    jobs: Sequence[UUID] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The present output of what a command has started, and the keys of its jobs to wait for."""

    output: Output
    unfinished: Sequence[UUID]


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A subcommand. ``handle`` returns its output, writes nothing to stdout, and raises CommandError.

    ``add_arguments`` adds its arguments without ``--json``. The data folder is prepared before unless
    ``makes_ready`` is false. If it starts jobs, ``outcome`` returns the present output of what was started
    with a key, as ``--wait`` shows it if that is true, and the jobs that have not ended; None if nothing was.
    """

    help: Promise
    add_arguments: Callable[[CommandParser], None]
    handle: Callable[[Mapping[str, Any]], Output]
    makes_ready: bool = True
    outcome: Callable[[UUID, bool], Outcome | None] | None = None


# The module of each subcommand. It has a Subcommand of its name in capitals.
MODULES = {
    "list": "runs",
    "info": "checkpoints",
    "note": "annotations",
    "comments": "annotations",
    "diff": "checkpoints",
    "call": "calls",
    "replay": "calls",
    "search": "runs",
    "export": "sharing",
    "shares": "sharing",
    "collection": "annotations",
    "fork": "launches",
    "resume": "launches",
    "publish": "launches",
    "sweep": "sweeps",
    "bulk": "sweeps",
    "run": "launches",
    "answer": "launches",
    "cancel": "launches",
    "score": "launches",
    "prune": "stored_data",
    "remove": "stored_data",
    "clean": "stored_data",
    "backup": "stored_data",
    "restore": "stored_data",
    "move": "stored_data",
    "doctor": "doctor",
    "hosts": "hosts",
    "audit": "audit",
    "isolation": "hosts",
    "roles": "access",
    "invitations": "access",
    "keys": "hosts",
    "tokens": "access",
}


class Subcommands(Mapping[str, Subcommand]):
    """The subcommands by name. A module is imported at its lookup."""

    def __getitem__(self, name: str) -> Subcommand:
        module = import_module(f"viewer.cli.commands.{MODULES[name]}")
        found: Subcommand = getattr(module, name.upper())
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


SUBCOMMANDS = Subcommands()


# Arguments.


# The types of arguments that name something. ``quality.fuzz.terminal_calls`` tests them by kind.
# A location to write to, which need not exist.
TARGET = validation.OptionType("target", lambda text: validation.named_path(text, validation.MAX_PATH))
LOCATION = validation.OptionType(
    "location", lambda text: validation.named_path(text, validation.MAX_PATH + validation.MAX_NAME)
)
CHECKPOINT = validation.OptionType(
    "checkpoint", lambda text: validation.named_path(text, validation.MAX_PATH + validation.MAX_NAME)
)
JOB = validation.OptionType("job", validation.one_line_text)
# The text of a day, as an address has it.
DAY = validation.OptionType("day", lambda text: validation.day(text).isoformat())
FOLDER = validation.OptionType("folder", lambda text: str(validation.existing_folder(text)))
FILE = validation.OptionType("file", lambda text: str(validation.existing_file(text)))
PROGRAM = validation.OptionType("program", lambda text: str(validation.program(text)))
# The commands say themselves what is wrong with the file that they read or write.
ADDRESS = validation.OptionType("database", lambda text: validation.one_line_text(text, 10_000))
READ_FILE = validation.OptionType("file", validation.named_path)
NEW_FILE = validation.OptionType("new file", validation.named_path)
NUMBER_FROM_ONE = validation.number_option(1, 10**9)
# A text, or - for that of standard input.
TYPED_TEXT = validation.OptionType("text", validation.TEXT.parse)
# How argparse begins a message about an invalid value.
ARGUMENT = re.compile("^argument (.*): must")
# The exit status of an invalid command line, as of argparse.
INVALID_USAGE = 2


class LineParser(CommandParser):
    """A parser of subcommands. An error is one line."""

    def error(self, message: str) -> NoReturn:
        """Raise CommandError."""
        raise CommandError(usage_error(message), returncode=INVALID_USAGE)


def usage_error(message: str) -> str:
    """A message of argparse as a sentence."""
    return validation.brief(
        ARGUMENT.sub(r"\1 must", message.removeprefix("Error: ")).removeprefix("argument ")
    )


# What a command prints and writes.


def plain(text: str) -> str:
    """A text of several lines, such as a model's, with each line made safe to print."""
    return "\n".join(map(validation.one_line, lines_of(text)))


def lines_of(text: str) -> list[str]:
    """Return the lines of a text. Only a line feed ends a line."""
    return text.replace("\r\n", "\n").split("\n")


def minute_of(moment: str) -> str:
    """Return a time of a document to the minute, with its offset from UTC: ``2026-03-14T09:26+00:00``."""
    return datetime.fromisoformat(moment).isoformat(timespec="minutes")


def as_json(document: Mapping[str, Any]) -> str:
    """The document as one line of JSON. Characters that ``one_line`` replaces are escaped."""
    return "".join(json_parts(document))


def json_parts(value: Any) -> Iterator[str]:
    """The parts of a value as JSON. The items of an iterator in a document are written as it yields them."""
    if isinstance(value, Iterator):
        yield "["
        for number, item in enumerate(value):
            yield ", " if number else ""
            yield from json_parts(item)
        yield "]"
    elif isinstance(value, Mapping) and any(isinstance(one, Iterator) for one in value.values()):
        yield "{"
        for number, (name, one) in enumerate(value.items()):
            yield f"{', ' if number else ''}{json.dumps(name)}: "
            yield from json_parts(one)
        yield "}"
    else:
        text = json.dumps(value, ensure_ascii=False)
        yield validation.UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# The warnings of a command that nobody waits for at a terminal of this machine.
_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


def warn(text: str) -> None:
    """Print a warning on stderr, or add it to what ``collected_warnings`` yields."""
    if (found := _collected.get()) is None:
        sys.stderr.write(validation.one_line(text) + "\n")
    else:
        found.append(validation.one_line(text))


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Yield a list that gets the warnings of the block."""
    found: list[str] = []
    former = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(former)


def written(document: Mapping[str, Any], name: str, text: str) -> Output:
    """Write a new file, and return its path with the document. Raises CommandError."""
    path = write_new_file(name, text)
    return Output({**document, "file": str(path.absolute())}, [_("Wrote %(path)s.") % {"path": path}])


def write_new_file(name: str, text: str) -> Path:
    """Write a text to a file that must not exist yet. Return its path. Raises CommandError."""
    path = Path(name).expanduser()
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise CommandError(_("%(path)s already exists.") % {"path": path}) from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    return path
