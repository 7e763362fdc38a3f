"""What a subcommand of ``manage.py checkpoints`` gives back, and how it is printed."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django.core.management.base import CommandParser
from django.utils.functional import Promise

# Characters that a terminal obeys or that break or reorder a line: controls, line and paragraph separators,
# halves of surrogate pairs, and every sign that changes the direction of text.
UNSAFE = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufff9-\\ufffb\\ud800-\\udfff]"
)


def one_line(text: str) -> str:
    """The text as one line that a terminal obeys in nothing: ``\\n`` and its like are written out."""
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def plain(text: str) -> str:
    """Text whose own line ends are meant, such as a model's: each of its lines is one line here."""
    return "\n".join(map(one_line, lines_of(text)))


def lines_of(text: str) -> list[str]:
    """The lines of a text whose line ends are meant. Nothing but ``\\n`` ends a line."""
    return text.replace("\r\n", "\n").split("\n")


def as_json(document: Mapping[str, Any]) -> str:
    """One JSON document on one line whose texts are whole: what ``one_line`` writes out is escaped."""
    text = json.dumps(document, ensure_ascii=False)
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


@dataclass(frozen=True, slots=True)
class Answer:
    """``document`` is what ``--json`` prints, ``lines`` what a person reads, ``status`` the exit status.

    Each line is printed as one line, whatever file, branch or task names it holds.
    """

    document: Mapping[str, Any]
    lines: Sequence[str]
    status: int = 0


class Subcommand(Protocol):
    """A module that answers one question. It writes nothing to stdout itself."""

    @property
    def HELP(self) -> Promise:
        """What it does, in a sentence."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare its arguments; ``--json`` is already there."""

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Do it. Raises CommandError with a message for the person at the terminal."""
