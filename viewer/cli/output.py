"""The output of a subcommand of ``manage.py checkpoints``, and how it is printed."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from django.core.management.base import CommandParser
from django.utils.functional import Promise

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


class Subcommand(Protocol):
    """The module of a subcommand. It returns its output and writes nothing to stdout."""

    @property
    def HELP(self) -> Promise:  # noqa: N802
        """A sentence on what it does."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Add its arguments, without ``--json``."""

    def handle(self, options: Mapping[str, Any]) -> Output:
        """Run it. Raises CommandError with a message for a person."""
