"""The output of a subcommand of ``manage.py checkpoints``, and how it is printed."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from viewer.validation import UNSAFE, one_line

__all__ = ["Output", "Subcommand", "as_json", "lines_of", "one_line", "plain"]


def plain(text: str) -> str:
    """A text of several lines, such as a model's, with each line made safe to print."""
    return "\n".join(map(one_line, lines_of(text)))


def lines_of(text: str) -> list[str]:
    """Return the lines of a text. Only a line feed ends a line."""
    return text.replace("\r\n", "\n").split("\n")


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
        yield UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


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


@dataclass(frozen=True, slots=True)
class Output:
    """``document`` is what ``--json`` prints, ``lines`` what a person reads, ``status`` the exit status.

    Each line is printed as one line, whatever file, branch or unit names it holds. ``file`` is the text of a
    file, printed instead of the lines. Lines and lists of the document may be iterators, which are printed as
    they yield; only one of the two is consumed.
    """

    document: Mapping[str, Any]
    lines: Iterable[str]
    status: int = 0
    file: str = ""


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A subcommand. ``handle`` returns its output, writes nothing to stdout, and raises CommandError.

    ``add_arguments`` adds its arguments without ``--json``. The data folder is prepared before unless
    ``makes_ready`` is false.
    """

    help: Promise
    add_arguments: Callable[[CommandParser], None]
    handle: Callable[[Mapping[str, Any]], Output]
    makes_ready: bool = True
