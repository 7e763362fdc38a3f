"""Reports a run to its spool: from several threads, and with exactly one last event."""

from __future__ import annotations

import errno
import os
import re
import signal
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from forkline_runner.messages import Message, english, message

if TYPE_CHECKING:
    from pathlib import Path

    from forkline_runner.limits import LimitCounter
    from forkline_runner.questions import Questions
    from viewer.host.jobs.spool import Spool

# Streamed text is collected for this long, so that a fast model does not flood the spool.
SECONDS_BETWEEN_TEXTS = 0.05
# Text that may be part of a key is held back until its rest arrives, up to this many characters.
MAX_HELD = 400
MAX_HELD_PRIVATE_KEY = 8000
_BETWEEN_WORDS = re.compile(r"(?<=\s)(?=\S)")
_NAMES_WHAT_FOLLOWS = re.compile(r"(?:[:=]|[Bb]earer|[Bb]asic)\s*\Z")
# A name and the start of a quoted value that has not ended.
_BEGUN_VALUE = re.compile(r"""[\w-]+["']?\s*[:=]\s*(["'])(?:(?!\1).)*\Z""", re.DOTALL)
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")


class Reporter:
    """Writes events to the spool, from any thread, and none after the last one."""

    # Set after the reporter is created.
    questions: Questions
    limits: LimitCounter | None = None

    def __init__(self, spool: Spool, folder: Path | str = "") -> None:
        self._spool, self._folder = spool, folder
        # Reentrant: a signal handler may interrupt its own thread in here.
        self._lock = threading.RLock()
        self._texts: dict[str, str] = {}
        self._text_at = 0.0
        self._warned: set[str] = set()
        self.has_ended = False

    def hide(self, texts: list[str]) -> None:
        """Replace these texts in every event from now on."""
        with self._lock:
            self._spool.hide(texts)

    def write(self, kind: str, /, **data: Any) -> None:
        """Append an event, after any streamed text that has not been written yet.

        Raises KeyboardInterrupt for an event that a limit does not allow.
        """
        if self.limits:
            self.limits.check(self, kind, data)
        with self._lock:
            self._write_texts()
            if not self.has_ended:
                self._append(kind, data)

    def warn(self, code: str, /, **values: object) -> None:
        """Report a warning, which does not stop the run. The same warning is reported once."""
        warning = message(code, **values)
        text = english(warning)
        with self._lock:
            if text not in self._warned:
                self._warned.add(text)
                self.write("warning", message=warning)

    def stream(self, text: str, agent: str) -> None:
        """Add to the text that a model is writing. It is reported at most every 50 ms."""
        with self._lock:
            self._texts[agent] = self._texts.get(agent, "") + text
            if time.monotonic() - self._text_at >= SECONDS_BETWEEN_TEXTS:
                self._write_texts(continues=True)

    def end(self, status: str, result: str = "", error: str | Message = "", traceback: str = "") -> None:
        """Append the last event, once."""
        with self._lock:
            self.write("ended", status=status, result=result, error=error, traceback=traceback)
            self.has_ended = True

    def _append(self, kind: str, data: dict[str, Any]) -> None:
        """Append an event. If the disk is full, stop the run: nothing more of it could be stored."""
        try:
            self._spool.write(kind, **data)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self.has_ended = True
            if kind == "ended":
                self._spool.write_reserved(kind, **data)
                return
            reason = message("runner.disk_full", path=self._folder)
            self._spool.write_reserved("ended", status="failed", result="", error=reason, traceback="")
            os.kill(os.getpid(), signal.SIGINT)

    def _write_texts(self, continues: bool = False) -> None:
        texts, self._texts = self._texts, {}
        self._text_at = time.monotonic()
        for agent, text in texts.items():
            end = end_of_whole_words(text) if continues else len(text)
            if end < len(text):
                self._texts[agent] = text[end:]
            if end and not self.has_ended:
                self._append("text", {"text": text[:end], "agent": agent})


def end_of_whole_words(text: str) -> int:
    """Return how many characters of an unfinished text can be shown: no partial word, no name without value.

    Secrets are redacted event by event, and one that is split over two events would not be found.
    """
    begun = text.rfind("-----BEGIN ")
    if begun >= 0 and "-----END " not in text[begun:] and len(text) - begun < MAX_HELD_PRIVATE_KEY:
        return begun
    first = max(0, len(text) - MAX_HELD)
    for between in reversed([match.end() for match in _BETWEEN_WORDS.finditer(text, first)]):
        if not _NAMES_WHAT_FOLLOWS.search(text, first, between) and text[between] not in ":=":
            return between
    # Text without spaces, such as Chinese, has no word boundaries to cut at.
    return len(text) if first or not text.isascii() else 0


def shortened(text: str, max_length: int) -> str:
    """Return at most this many of its first characters, without what may be a partial key at the end.

    A partial key is no longer recognised as a secret.
    """
    if len(text) <= max_length:
        return text
    begun = text[: end_of_whole_words(text[:max_length])]
    value = _BEGUN_VALUE.search(begun, max(0, len(begun) - MAX_HELD))
    return begun[: value.start()] if value else begun


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """Return the values of variables whose names look like keys, tokens or passwords."""
    return [
        value for name, value in environment.items() if any(word in name.upper() for word in SECRET_NAMES)
    ]
