"""What a subcommand of ``manage.py checkpoints`` gives back, and how it is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from django.core.management.base import CommandParser
from django.utils.functional import Promise


@dataclass(frozen=True, slots=True)
class Answer:
    """``document`` is what ``--json`` prints, ``text`` what a person reads, ``status`` the exit status."""

    document: Mapping[str, Any]
    text: str
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
