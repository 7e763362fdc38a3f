"""Parses the arguments of a command: their types, and one line on an error."""

import re
from typing import NoReturn

from django.core.management.base import CommandError, CommandParser

from viewer.validation import (
    MAX_NAME,
    MAX_PATH,
    TEXT,
    OptionType,
    brief,
    day,
    existing_file,
    existing_folder,
    named_path,
    number_option,
    one_line_text,
    program,
)

# The types of arguments that name something. ``quality.fuzz.terminal_calls`` tests them by kind.
# A location to write to, which need not exist.
TARGET = OptionType("target", lambda text: named_path(text, MAX_PATH))
LOCATION = OptionType("location", lambda text: named_path(text, MAX_PATH + MAX_NAME))
CHECKPOINT = OptionType("checkpoint", lambda text: named_path(text, MAX_PATH + MAX_NAME))
JOB = OptionType("job", one_line_text)
# The text of a day, as an address has it.
DAY = OptionType("day", lambda text: day(text).isoformat())
FOLDER = OptionType("folder", lambda text: str(existing_folder(text)))
FILE = OptionType("file", lambda text: str(existing_file(text)))
PROGRAM = OptionType("program", lambda text: str(program(text)))
# The commands say themselves what is wrong with the file that they read or write.
ADDRESS = OptionType("database", lambda text: one_line_text(text, 10_000))
READ_FILE, NEW_FILE = OptionType("file", named_path), OptionType("new file", named_path)
NUMBER_FROM_ONE = number_option(1, 10**9)
# A text, or - for that of standard input.
TYPED_TEXT = OptionType("text", TEXT.parse)
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
    return brief(ARGUMENT.sub(r"\1 must", message.removeprefix("Error: ")).removeprefix("argument "))
