"""What a subcommand of ``manage.py checkpoints`` gives back, and how it is made."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from django.core.management.base import CommandParser
from django.utils.functional import Promise

# What a terminal takes as an order, or shows as other text than it is: controls, halves of signs, directions.
ORDERS = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")


def plain(text: str) -> str:
    """The text without what a terminal would take as an order."""
    return ORDERS.sub("�", text)


def as_json(document: Mapping[str, Any]) -> str:
    """One JSON document whose texts are whole: what a terminal would take as an order is escaped."""
    text = json.dumps(document, ensure_ascii=False)
    return ORDERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


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
