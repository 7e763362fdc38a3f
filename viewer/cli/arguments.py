"""The arguments of a command: texts from files and standard input, and requests of the HTTP interface.

A command line and a request, which is a JSON object, are parsed by the same parser, so they have the same
options.
"""

import copy
import sys
from argparse import SUPPRESS, Action, _AppendAction
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import override

from viewer.cli import (
    ADDRESS,
    FILE,
    FOLDER,
    NEW_FILE,
    PROGRAM,
    READ_FILE,
    SUBCOMMANDS,
    TYPED_TEXT,
    LineParser,
)
from viewer.records.audit import is_at_terminal
from viewer.validation import COLLECTOR, MAX_CHARACTERS, TEXT, InvalidInput, content_of, quoted, text_value

# Texts that an argument names.


# Bytes of the file of a value.
MAX_FILE_BYTES = 16 * 1024 * 1024


def read_text(text: str) -> str:
    """The text, or at a terminal the content of the file that it names after an @. Raises CommandError.

    A text that begins with @ is typed with another one.
    """
    if not text.startswith("@") or not is_at_terminal():
        return text
    if text.startswith("@@"):
        return text[1:]
    try:
        return content_of(text[1:], MAX_FILE_BYTES).decode()
    except InvalidInput as error:
        raise CommandError(str(error.of("@FILE"))) from None
    except UnicodeDecodeError as error:
        raise CommandError(
            _("%(file)s cannot be read: %(error)s") % {"file": quoted(text[1:]), "error": error.reason}
        ) from None


def typed_text(text: str) -> str:
    """The text, or at a terminal for - that of standard input. Raises CommandError if it cannot be read."""
    if text != "-" or not is_at_terminal():
        return text
    try:
        return text_value(sys.stdin.read(MAX_CHARACTERS + 1), MAX_CHARACTERS)
    except InvalidInput as error:
        raise CommandError(str(error.of(_("The standard input")))) from None
    except UnicodeDecodeError as error:
        raise CommandError(_("The standard input cannot be read: %s") % error.reason) from None


# Arguments as a request, and a request as arguments.


# What only a person at a terminal of the machine names: its files and programs, and where it sends to.
OF_MACHINE = (ADDRESS, COLLECTOR, FILE, FOLDER, PROGRAM)
# What is about the terminal itself.
OF_TERMINAL = {"help", "json", "traceback", "wait", "follow"}
FROM_FILE = "@FILE"


@cache
def parser_of(command: str) -> CommandParser:
    """Return the parser of a command's arguments. An invalid one raises CommandError."""
    parser = LineParser(prog=command)
    # The first request may be in another language.
    with override("en"):
        SUBCOMMANDS[command].add_arguments(parser)
    for action in parser._actions:
        if action.type is READ_FILE:
            # A program sends the content.
            action.type = TEXT
    return parser


def name_of(action: Action) -> str:
    """The name of an argument in a request."""
    option = action.option_strings[-1] if action.option_strings else action.dest
    return option.removeprefix("--").replace("-", "_")


def arguments_of(command: str) -> dict[str, Action]:
    """The arguments of a command that a program may send, by their names."""
    found = {name_of(action): action for action in parser_of(command)._actions}
    return {
        name: action
        for name, action in found.items()
        if action.type not in OF_MACHINE and name not in OF_TERMINAL
    }


def is_list(action: Action) -> bool:
    """Whether an argument may have several values."""
    return isinstance(action, _AppendAction) or action.nargs == "*"


def command_line(command: str, given: Mapping[str, Any]) -> list[str]:
    """The arguments that a request names. Raises CommandError if one before another is missing."""
    options, values, missing = list[str](), list[str](), ""
    for name, action in arguments_of(command).items():
        value = given.get(name)
        if action.option_strings:
            options += _option(action.option_strings[0], value)
        elif value in (None, [], "--"):
            # The parser drops a "--" wherever it stands, and would confuse the arguments after it.
            missing = missing or name
        elif missing:
            raise CommandError(_("%(name)s needs %(missing)s.") % {"name": name, "missing": missing})
        else:
            values += value if isinstance(value, list) else [value]
    return [*options, "--", *values] if values else options


def _option(option: str, value: Any) -> list[str]:
    if isinstance(value, list):
        return [f"{option}={one}" for one in value]
    if isinstance(value, str):
        return [f"{option}={value}"]
    return [option] if value is True else []


def request_of(command: str, arguments: Sequence[str]) -> dict[str, Any]:
    """The request of a command line, with the content of the files that it names.

    Raises CommandError for an argument that a program may not send, or a file that cannot be read.
    """
    parser, taken = LineParser(prog=command), arguments_of(command)
    with override("en"):
        SUBCOMMANDS[command].add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--traceback", action="store_true")
    types = dict[str, Action]()
    for action in parser._actions:
        # As they were typed, each under its own name.
        action.dest = name_of(action)
        types[action.dest] = copy.copy(action)
        action.type, action.choices, action.default = None, None, SUPPRESS
    found = dict[str, Any]()
    for name, value in vars(parser.parse_args(list(arguments))).items():
        if name in OF_TERMINAL:
            continue
        if name not in taken:
            text = _("--%s names something of the machine that runs the command. Run it there.")
            raise CommandError(text % name.replace("_", "-"))
        action = types[name]
        if action.nargs == 0:
            found[name] = True
        elif isinstance(value, list):
            found[name] = [_content(action, one) for one in value]
        else:
            found[name] = _content(action, value)
    return found


def _content(action: Action, value: str) -> str:
    """The value of an argument, with the content of the file that it names on this machine."""
    if action.type is TYPED_TEXT:
        return typed_text(value)
    if action.type is READ_FILE:
        try:
            return content_of(value, MAX_FILE_BYTES).decode()
        except InvalidInput as error:
            raise CommandError(str(error.of(action.option_strings[0]))) from None
        except UnicodeDecodeError as error:
            raise CommandError(f"{action.option_strings[0]}: {error.reason}") from None
    if action.type is NEW_FILE:
        # The server returns the file, which is written here.
        return "-"
    if FROM_FILE not in str(action.metavar):
        return value
    name, mark, text = value.partition("=") if "=" in str(action.metavar) else ("", "", value)
    return f"{name}{mark}{read_text(text)}"
