"""What a subcommand of ``manage.py checkpoints`` gives back, and how it is printed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django.core.management.base import CommandParser
from django.utils.functional import Promise

from viewer.cli.safe_lines import UNSAFE, one_line

__all__ = ["Answer", "Subcommand", "as_json", "lines_of", "one_line", "plain"]


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
