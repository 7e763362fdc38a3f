"""What the run asks a person: a line in the spool, and a file that holds the answer, whenever it comes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forkline_runner.reporting import shortened

if TYPE_CHECKING:
    from forkline_runner.reporting import Reporter

POLL_SECONDS = 0.1
# As JSON, so that a question always fits into one line of the spool.
MOST_OUTPUT_BYTES = 160_000
MOST_PROMPT_BYTES = 40_000
MOST_WORDS = 2000
MOST_CHOICES = 50


class Questions:
    """Asks one question after another, or several threads one each. Numbers count from 1."""

    def __init__(self, folder: Path, reporter: Reporter, answer_name: Callable[[int], str]) -> None:
        self._folder = folder
        self._reporter = reporter
        self._answer_name = answer_name
        self._lock = threading.Lock()
        self._asked = 0
        # The questions that still wait, each with what asked it.
        self._waiting: dict[int, Any] = {}

    def ask(self, kind: str, prompt: str, asker: Any = None, **context: Any) -> str:
        """Ask, and wait for as long as it takes. The answer; empty where a person accepts what is there.

        Raises Withdrawn where ``withdraw`` was called for the asker meanwhile.
        """
        with self._lock:
            self._asked += 1
            number = self._asked
            self._waiting[number] = asker
            self._reporter.write(
                "question",
                number=number,
                kind=kind,
                prompt=cut(prompt, MOST_PROMPT_BYTES),
                context=fitting(context),
            )
        try:
            text = self._answer(number)
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        self._reporter.write("answered", number=number)
        return text

    def is_waiting(self) -> bool:
        """Whether a person is waited for."""
        return bool(self._waiting)

    def withdraw(self, asker: Any) -> None:
        """Ask no more what this asker has asked: it has gone on without an answer."""
        with self._lock:
            left = [number for number, one in self._waiting.items() if one == asker]
            for number in left:
                del self._waiting[number]
                self._reporter.write("withdrawn", number=number)

    def _answer(self, number: int) -> str:
        path = self._folder / self._answer_name(number)
        while True:
            if number not in self._waiting:
                raise Withdrawn
            try:
                return str(json.loads(path.read_text(encoding="utf-8"))["text"])
            except FileNotFoundError:
                time.sleep(POLL_SECONDS)


class Withdrawn(Exception):
    """What asked has gone on without the answer."""


def fitting(context: dict[str, Any]) -> dict[str, Any]:
    """What a question is about, short enough for one line; ``is_cut`` says that the output is not whole."""
    fit: dict[str, Any] = {}
    for name, value in context.items():
        if name == "output":
            whole = as_text(value)
            fit["output"] = cut(whole, MOST_OUTPUT_BYTES)
            if len(fit["output"]) < len(whole):
                fit["is_cut"] = True
        elif isinstance(value, list):
            fit[name] = [shortened(str(one), MOST_WORDS) for one in value[:MOST_CHOICES]]
        elif value not in (None, ""):
            fit[name] = value if isinstance(value, int) else shortened(str(value), MOST_WORDS)
    return fit


def as_text(value: Any) -> str:
    """An output as a person reads it: texts as they are, models and values as indented JSON."""
    if isinstance(value, str):
        return value
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def cut(text: str, most_bytes: int) -> str:
    """As much of the text as takes so many bytes as JSON."""
    if len(json.dumps(text)) <= most_bytes:
        return text
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if len(json.dumps(text[:middle])) <= most_bytes:
            fits = middle
        else:
            too_long = middle
    return shortened(text, fits)
