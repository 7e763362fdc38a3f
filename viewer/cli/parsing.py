"""Parses the arguments of a command, with one line on an error."""

import re
from typing import NoReturn

from django.core.management.base import CommandError, CommandParser

from viewer.validation import brief

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
