"""What the child says of itself: one spool, several threads, and exactly one last line."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from forkline_runner.messages import Words, english, words

if TYPE_CHECKING:
    from forkline_runner.limits import Limits
    from forkline_runner.questions import Questions
    from viewer.jobs.spool import Spool

# Streamed text is gathered for this long, so that a fast model does not flood the spool.
SECONDS_BETWEEN_TEXTS = 0.05
# What may be a part of a key waits for its rest, up to so many characters.
MOST_HELD = 400
MOST_HELD_OF_A_PRIVATE_KEY = 8000
_BETWEEN_WORDS = re.compile(r"(?<=\s)(?=\S)")
_NAMES_WHAT_FOLLOWS = re.compile(r"(?:[:=]|[Bb]earer|[Bb]asic)\s*\Z")
# A value between quotation marks that has not ended, with its name.
_BEGUN_VALUE = re.compile(r"""[\w-]+["']?\s*[:=]\s*(["'])(?:(?!\1).)*\Z""", re.DOTALL)
# What is longer is told in English alone, so that its line does not become too long to be kept.
MOST_SAID_TWICE = 10_000
SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")


class Reporter:
    """Writes the spool's lines, whichever thread they come from; after the last one, none."""

    # What the run asks a person goes through these; who makes the reporter sets them.
    questions: Questions
    limits: Limits | None = None

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        # A signal may find its own thread in here.
        self._lock = threading.RLock()
        self._texts: dict[str, str] = {}
        self._text_at = 0.0
        self._warned: set[str] = set()
        self.has_ended = False

    def write(self, kind: str, /, **data: Any) -> None:
        """Append a line, behind the streamed text that came before it.

        Raises KeyboardInterrupt for what would begin beyond the run's limits.
        """
        if self.limits:
            self.limits.check(self, kind, data)
        with self._lock:
            self._write_texts()
            if not self.has_ended:
                self._spool.write(kind, **data)

    def warn(self, text: str, /, **values: object) -> None:
        """Tell a person something that does not stop the run; the same thing only once."""
        told = words(text, **values)
        message = english(told)
        with self._lock:
            if message not in self._warned:
                self._warned.add(message)
                self.write("warning", message=message, **_beside(message, told))

    def stream(self, text: str, agent: str) -> None:
        """Add to the text that a model is writing. A line follows at most every 50 ms."""
        with self._lock:
            self._texts[agent] = self._texts.get(agent, "") + text
            if time.monotonic() - self._text_at >= SECONDS_BETWEEN_TEXTS:
                self._write_texts(goes_on=True)

    def end(self, status: str, result: str = "", error: str | Words = "", traceback: str = "") -> None:
        """Append the last line, once."""
        said = error if isinstance(error, str) else english(error)
        told = {} if isinstance(error, str) else _beside(said, error)
        with self._lock:
            self.write("ended", status=status, result=result, error=said, traceback=traceback, **told)
            self.has_ended = True

    def _write_texts(self, goes_on: bool = False) -> None:
        texts, self._texts = self._texts, {}
        self._text_at = time.monotonic()
        for agent, text in texts.items():
            end = end_of_whole_words(text) if goes_on else len(text)
            if end < len(text):
                self._texts[agent] = text[end:]
            if end and not self.has_ended:
                self._spool.write("text", text=text[:end], agent=agent)


def _beside(said: str, told: Words) -> dict[str, Words]:
    """The words that stand in a line beside their English."""
    return {"words": told} if len(said) < MOST_SAID_TWICE else {}


def end_of_whole_words(text: str) -> int:
    """How much of a text that goes on can be shown: no part of a word, nor a name without its value.

    Secrets are looked for line by line, and one that came in two lines would not be found.
    """
    begun = text.rfind("-----BEGIN ")
    if begun >= 0 and "-----END " not in text[begun:] and len(text) - begun < MOST_HELD_OF_A_PRIVATE_KEY:
        return begun
    first = max(0, len(text) - MOST_HELD)
    for between in reversed([match.end() for match in _BETWEEN_WORDS.finditer(text, first)]):
        if not _NAMES_WHAT_FOLLOWS.search(text, first, between) and text[between] not in ":=":
            return between
    # Nothing to hold on to in what is written without blanks, as in Chinese.
    return len(text) if first or not text.isascii() else 0


def shortened(text: str, most: int) -> str:
    """At most so many of its first characters, without what may be a part of a key where it is cut.

    What stands at the end would not be known for one any more.
    """
    if len(text) <= most:
        return text
    begun = text[: end_of_whole_words(text[:most])]
    value = _BEGUN_VALUE.search(begun, max(0, len(begun) - MOST_HELD))
    return begun[: value.start()] if value else begun


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """The values of variables that are named like keys, tokens or passwords."""
    return [
        value for name, value in environment.items() if any(word in name.upper() for word in SECRET_NAMES)
    ]
