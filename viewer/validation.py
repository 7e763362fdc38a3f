"""Numbers, days, texts and paths as people type them, and untrusted text as one safe line."""

import math
import os
import re
import stat
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from viewer.messages.message import UserFacingError, UserMessage

# Untrusted text as one line that cannot control a terminal or forge a line of a log.


# Characters that control a terminal, or break or reorder a line: control characters, line and paragraph
# separators, surrogates, and characters that change the direction of text.
UNSAFE = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufff9-\\ufffb\\ud800-\\udfff]"
)


def one_line(text: str) -> str:
    """Return the text as one line. Control characters such as line feeds are written as escapes."""
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


# Numbers, days, texts and paths as people type them: in options, settings, forms and addresses.
#
# Each parsing function returns the value of a text, or raises InvalidInput. None of them waits for a
# device or a pipe, reads more than it was asked to, or takes more than linear time.


# Characters of a text that is one line, such as a name; and of a typed path.
MAX_NAME, MAX_PATH = 300, 4_096
# Characters of a typed value.
MAX_CHARACTERS = 500_000
# Characters of a quoted text that are shown.
MAX_QUOTED = 80
# Characters of a message, and of a word of it, such as a path.
MAX_MESSAGE, MAX_WORD = 2_000, 300
# Digits of a number. Converting a longer one takes quadratic time.
MAX_DIGITS = 30
# Days of an age. Dates before year 1 cannot be computed.
MAX_DAYS = 36_500
WHOLE_NUMBER = re.compile(rf"[+-]?[0-9]{{1,{MAX_DIGITS}}}")
NUMBER = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})")
LONG_WORD = re.compile(rf"\S{{{MAX_WORD + 1},}}")
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# NUL, and Python's escapes of bytes that are not UTF-8.
UNSTORABLE = re.compile("[\0\ud800-\udfff]")
# Characters that end a line or control a terminal. Those that change the direction of text are used in names.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class InvalidInput(UserFacingError, ValueError):
    """A text is not what it must be. ``wanted`` says what it must be, as a phrase.

    The message starts with "This must be", for a field that shows its own name and text.
    """

    def __init__(self, text: str, wanted: UserMessage) -> None:
        super().__init__("validation.must_be", wanted=wanted)
        self.text, self.wanted = text, wanted

    def of(self, name: str | UserMessage) -> UserMessage:
        """The message for a text that is shown nowhere else: with its name, and the text, shortened."""
        shown = quoted(self.text)
        return UserMessage("validation.named_must_be", {"name": name, "wanted": self.wanted, "value": shown})


@dataclass(frozen=True, slots=True)
class OptionType:
    """The type of an option of a command. ``kind`` names what it takes, such as "number"."""

    kind: str
    parse: Callable[[str], Any]

    def __call__(self, text: str) -> Any:
        """The value of a text. Raises ArgumentTypeError."""
        try:
            return self.parse(text)
        except InvalidInput as error:
            message = UserMessage("validation.must_be_not", {"wanted": error.wanted, "value": quoted(text)})
            raise ArgumentTypeError(str(message)) from None


def number_option(least: int, most: int) -> OptionType:
    """The type of an option that takes a whole number."""
    return OptionType("number", lambda text: whole_number(text, least, most))


def quoted(text: str) -> str:
    """The text in quotes, as one line and shortened, to be shown in a message."""
    return f"'{shortened(text)}'"


def shortened(text: str, most: int = MAX_QUOTED) -> str:
    """The text as one line of about ``most`` characters, without the middle of a longer one."""
    if len(text) > most:
        text = f"{text[: most * 3 // 4]}…{text[-most // 4 :]}"
    return one_line(text)


def brief(text: str) -> str:
    """A message as one line, in which long words and the middle of a long text are shortened."""
    short = LONG_WORD.sub(lambda found: shortened(found[0], MAX_WORD), text)
    return shortened(short, MAX_MESSAGE)


def whole_number(text: str, least: int, most: int) -> int:
    """The whole number from ``least`` to ``most``."""
    typed = text.strip()
    number = int(typed) if WHOLE_NUMBER.fullmatch(typed) else None
    if number is None or number < least:
        raise InvalidInput(text, UserMessage("validation.whole_number_from", {"least": least}))
    if number > most:
        raise InvalidInput(text, UserMessage("validation.whole_number_to", {"most": most}))
    return number


def number_in(text: str, max_digits: int = 9) -> int | None:
    """Return the text as an integer of at most ``max_digits`` digits, at least 0; None for any other text."""
    try:
        return whole_number(text, 0, 10**max_digits - 1)
    except InvalidInput:
        return None


def number(text: str, least: float, most: float) -> float:
    """The number from ``least`` to ``most``, in decimal notation. Not a number and infinity are none."""
    typed = text.strip()
    found = float(typed) if NUMBER.fullmatch(typed) else math.nan
    if found > most:
        raise InvalidInput(text, UserMessage("validation.number_to", {"most": f"{most:.15g}"}))
    if not found >= least:
        raise InvalidInput(text, UserMessage("validation.number_from", {"least": f"{least:.15g}"}))
    return found


def day(text: str) -> date:
    """The day that is written as YYYY-MM-DD, not in the first or last year that Python knows."""
    typed = text.strip()
    try:
        found = date.fromisoformat(typed) if DAY.fullmatch(typed) else None
    except ValueError:
        found = None
    if found is None or not 1 < found.year < 9999:
        raise InvalidInput(text, UserMessage("validation.day"))
    return found


def one_line_text(text: str, most: int = MAX_NAME, *, may_be_empty: bool = False) -> str:
    """The text, which has at most ``most`` characters and none that controls a terminal or ends a line."""
    if not (text.strip() or may_be_empty) or len(text) > most or CONTROL.search(text):
        code = "validation.one_line_or_empty" if may_be_empty else "validation.one_line"
        raise InvalidInput(text, UserMessage(code, {"most": most}))
    return text


def text_value(text: str, most: int) -> str:
    """The text of a value, which has at most ``most`` characters and can be stored as UTF-8."""
    if len(text) > most or UNSTORABLE.search(text):
        raise InvalidInput(text, UserMessage("validation.text", {"most": most}))
    return text


def storable(text: str) -> str:
    """Return the text with U+FFFD for what no row holds, so that a search for it finds nothing."""
    return UNSTORABLE.sub("\ufffd", text)


def named_path(text: str, most: int = MAX_PATH) -> str:
    """The text of a path, of which nothing but its length is known."""
    if not text.strip() or len(text) > most:
        raise InvalidInput(text, UserMessage("validation.path"))
    return text


def path(text: str) -> Path:
    """The absolute path that a text names. It need not exist. Links are not followed."""
    if UNSTORABLE.search(named_path(text)):
        raise InvalidInput(text, UserMessage("validation.path"))
    try:
        return Path(text).expanduser().absolute()
    except (OSError, RuntimeError):
        raise InvalidInput(text, UserMessage("validation.path")) from None


def existing_folder(text: str) -> Path:
    """The absolute path of a folder."""
    found = path(text)
    if not stat.S_ISDIR(_mode(found)):
        raise InvalidInput(text, UserMessage("validation.folder"))
    return found


def existing_file(text: str) -> Path:
    """The absolute path of a file that can be read; not of a device or pipe."""
    found = path(text)
    if not stat.S_ISREG(_mode(found)) or not os.access(found, os.R_OK):
        raise InvalidInput(text, UserMessage("validation.file"))
    return found


def program(text: str) -> Path:
    """The absolute path of a file that can be executed. A link to one is not followed."""
    found = path(text)
    if not stat.S_ISREG(_mode(found)) or not os.access(found, os.X_OK):
        raise InvalidInput(text, UserMessage("validation.program"))
    return found


def content_of(text: str, most: int) -> bytes:
    """The content of a file of at most ``most`` bytes.

    A pipe is read until its end only if this process has it open, such as the shell's ``<(…)``.
    """
    found = path(text)
    is_open_here = found.parent.as_posix() in ("/dev/fd", "/proc/self/fd") or found == Path("/dev/stdin")
    wanted = UserMessage("validation.readable_file", {"most": most})
    try:
        # Opening a pipe that nobody writes to would wait.
        flags = os.O_RDONLY | os.O_CLOEXEC | (0 if is_open_here else os.O_NONBLOCK | os.O_NOCTTY)
        descriptor = os.open(found, flags)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if not (stat.S_ISREG(mode) or (is_open_here and stat.S_ISFIFO(mode))):
                raise InvalidInput(text, wanted)
            data = file.read(most + 1)
    except OSError:
        raise InvalidInput(text, wanted) from None
    if len(data) > most:
        raise InvalidInput(text, wanted)
    return data


def content_at(found: Path, most: int, *, follows_links: bool = False) -> bytes | None:
    """The content of a regular file of at most ``most`` bytes; None for anything else, also a link."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(found, flags if follows_links else flags | os.O_NOFOLLOW)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
        # A folder or a pipe may be there by now.
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _mode(found: Path) -> int:
    """The type and permissions of what is at a path; 0 if nothing is, or if it cannot be reached."""
    try:
        return found.stat().st_mode
    except (OSError, ValueError):
        return 0


# The types of arguments that take a text. ``quality.fuzz.terminal_calls`` tests them by kind.


def _pair(text: str) -> str:
    name, mark, _value = text_value(text, MAX_CHARACTERS).partition("=")
    try:
        one_line_text(name if mark else "")
    except InvalidInput:
        raise InvalidInput(text, UserMessage("validation.pair", {"most": MAX_NAME})) from None
    return text


def _host_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}", text):
        raise InvalidInput(text, UserMessage("validation.host_name", {"most": 100}))
    return text


def _collector(text: str) -> str:
    """The address of OTLP over HTTP, with the usual path if it names none."""
    wanted = UserMessage("validation.collector", {"example": "http://localhost:4318"})
    try:
        parts = urlsplit(one_line_text(text))
        is_http = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_http = False
    # Keys belong in variables: an address is printed.
    if not is_http or "@" in parts.netloc or parts.query or parts.fragment or not text.isascii():
        raise InvalidInput(text, wanted)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") or "/v1/traces"))


NAME = OptionType("text", one_line_text)
COLLECTOR = OptionType("collector", _collector)
HOST_NAME = OptionType("host", _host_name)
# Empty for none.
CODE_NAME = OptionType("text", lambda text: one_line_text(text, MAX_PATH, may_be_empty=True))
OPTIONAL_NAME = OptionType("text", lambda text: one_line_text(text, may_be_empty=True))
TEXT = OptionType("text", lambda text: text_value(text, MAX_CHARACTERS))
PAIR = OptionType("pair", _pair)


def is_storable(path: Path | str) -> bool:
    """Whether a row can store the path and a page can show it: all of its names are UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
