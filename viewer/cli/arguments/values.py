"""Values of options: texts, files and JSON."""

import json
import sys
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _

from viewer.messages.message import UserMessage
from viewer.validation import (
    MAX_NAME,
    MAX_PATH,
    InvalidInput,
    OptionType,
    content_of,
    day,
    existing_file,
    existing_folder,
    named_path,
    number_option,
    one_line_text,
    program,
    quoted,
    shortened,
    text_value,
)

# Characters of a value, and bytes of the file of one.
MAX_CHARACTERS, MAX_FILE_BYTES = 500_000, 16 * 1024 * 1024


def _pair(text: str) -> str:
    name, mark, _value = text_value(text, MAX_CHARACTERS).partition("=")
    try:
        one_line_text(name if mark else "")
    except InvalidInput:
        raise InvalidInput(text, UserMessage("validation.pair", {"most": MAX_NAME})) from None
    return text


# The types of arguments that take a value. ``quality.fuzz.terminal_calls`` tests them by kind.
# A location to write to, which need not exist.
TARGET = OptionType("target", lambda text: named_path(text, MAX_PATH))
LOCATION = OptionType("location", lambda text: named_path(text, MAX_PATH + MAX_NAME))
CHECKPOINT = OptionType("checkpoint", lambda text: named_path(text, MAX_PATH + MAX_NAME))
JOB = OptionType("job", one_line_text)
NAME = OptionType("text", one_line_text)
# Empty for none.
CODE_NAME = OptionType("text", lambda text: one_line_text(text, MAX_PATH, may_be_empty=True))
OPTIONAL_NAME = OptionType("text", lambda text: one_line_text(text, may_be_empty=True))
TEXT = OptionType("text", lambda text: text_value(text, MAX_CHARACTERS))
PAIR = OptionType("pair", _pair)
# The text of a day, as an address has it.
DAY = OptionType("day", lambda text: day(text).isoformat())
FOLDER = OptionType("folder", lambda text: str(existing_folder(text)))
FILE = OptionType("file", lambda text: str(existing_file(text)))
PROGRAM = OptionType("program", lambda text: str(program(text)))
# The commands say themselves what is wrong with the file that they read or write.
READ_FILE, NEW_FILE = OptionType("file", named_path), OptionType("new file", named_path)
NUMBER_FROM_ONE = number_option(1, 10**9)


def read_text(text: str) -> str:
    """The text, or the content of the file that it names after an @. Raises CommandError."""
    if not text.startswith("@"):
        return text
    try:
        return content_of(text[1:], MAX_FILE_BYTES).decode()
    except InvalidInput as error:
        raise CommandError(str(error.of("@FILE"))) from None
    except UnicodeDecodeError as error:
        raise CommandError(
            _("%(file)s cannot be read: %(error)s") % {"file": quoted(text[1:]), "error": error.reason}
        ) from None


def read_stdin() -> str:
    """The text of standard input. Raises CommandError for one that is too long or not UTF-8."""
    try:
        text = sys.stdin.read(MAX_CHARACTERS + 1)
        return text_value(text, MAX_CHARACTERS)
    except InvalidInput as error:
        raise CommandError(str(error.of(_("The standard input")))) from None
    except UnicodeDecodeError as error:
        raise CommandError(_("The standard input cannot be read: %s") % error.reason) from None


def pair_of(text: str, option: str) -> tuple[str, str]:
    """The name and the value of NAME=VALUE. Raises CommandError."""
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise CommandError(
            _("%(option)s needs NAME=VALUE, not %(text)s.") % {"option": option, "text": quoted(text)}
        )
    return name, value


def json_value(text: str, option: str) -> Any:
    """The value of a JSON text. Raises CommandError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = json.dumps(shortened(text), ensure_ascii=False)
        message = _("%(option)s must be JSON (%(error)s). A text is written in quotes: %(hint)s")
        raise CommandError(message % {"option": option, "error": error, "hint": hint}) from None
