"""Questions to a person: an event in the spool, and a file that holds the answer."""

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
# Measured as JSON, so that a question always fits into one event.
MAX_OUTPUT_BYTES = 160_000
MAX_PROMPT_BYTES = 40_000
MAX_SCHEMA_BYTES = 40_000
MAX_CHARACTERS = 2000
MAX_CHOICES = 50


class Questions:
    """Asks questions, numbered from 1, from any thread."""

    def __init__(self, folder: Path, reporter: Reporter, answer_name: Callable[[int], str]) -> None:
        self._folder = folder
        self._reporter = reporter
        self._answer_name = answer_name
        self._lock = threading.Lock()
        self._asked = 0
        # The askers of the open questions, by number.
        self._waiting: dict[int, Any] = {}

    def ask(self, kind: str, prompt: str, asker: Any = None, **context: Any) -> str:
        """Ask, and wait without a time limit. Return the answer; empty if a person accepts the output.

        Raises Withdrawn if ``withdraw`` is called for the asker.
        """
        with self._lock:
            self._asked += 1
            number = self._asked
            self._waiting[number] = asker
            self._reporter.write(
                "question",
                number=number,
                kind=kind,
                prompt=cut(prompt, MAX_PROMPT_BYTES),
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
        """Return whether a question is open."""
        return bool(self._waiting)

    def withdraw(self, asker: Any) -> None:
        """Withdraw the questions of this asker, which continues without an answer."""
        with self._lock:
            withdrawn = [number for number, one in self._waiting.items() if one == asker]
            for number in withdrawn:
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
    """The question was withdrawn: its asker continues without an answer."""


def fitting(context: dict[str, Any]) -> dict[str, Any]:
    """Return a question's context, short enough for one event. ``is_cut``: the output was shortened."""
    fit: dict[str, Any] = {}
    for name, value in context.items():
        if name == "output" and value is None:
            continue
        if name == "output":
            whole = as_text(value)
            fit["output"] = cut(whole, MAX_OUTPUT_BYTES)
            if len(fit["output"]) < len(whole):
                fit["is_cut"] = True
        elif name == "schema":
            # A part of it is not a schema.
            if value and len(json.dumps(value)) <= MAX_SCHEMA_BYTES:
                fit["schema"] = value
        elif isinstance(value, list):
            fit[name] = [shortened(str(one), MAX_CHARACTERS) for one in value[:MAX_CHOICES]]
        elif value not in (None, ""):
            fit[name] = value if isinstance(value, int) else shortened(str(value), MAX_CHARACTERS)
    return fit


def as_text(value: Any) -> str:
    """Return an output as readable text: texts unchanged, models and values as indented JSON."""
    if isinstance(value, str):
        return value
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def cut(text: str, max_bytes: int) -> str:
    """Return as much of the text as fits into this many bytes as JSON."""
    if len(json.dumps(text)) <= max_bytes:
        return text
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if len(json.dumps(text[:middle])) <= max_bytes:
            fits = middle
        else:
            too_long = middle
    return shortened(text, fits)
