"""Answers the model and tool calls of a run from its record, and refuses the network meanwhile.

An exported test has the source of this module, so it needs the standard library only.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import socket
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

# Clients of models read a key when they are made. These stay in the process, and nothing is sent.
KEYS = ("ANTHROPIC", "AZURE", "COHERE", "DEEPSEEK", "GEMINI", "GOOGLE", "GROQ", "MISTRAL", "OPENAI", "XAI")
QUIET = {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TESTING": "true", "CREWAI_TRACING_ENABLED": "false"}
QUIET |= {"CREWAI_DISABLE_TRACKING": "true", "CREWAI_DISABLE_VERSION_CHECK": "true"}
QUIET |= {"OTEL_SDK_DISABLED": "true", "LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}


class Record:
    """The recorded answers and results, each used once. ``missing`` are the calls that it cannot answer."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.inputs, self.expected = record["inputs"], record["expected"]
        self.missing: list[str] = []
        self._answers = sorted(record["answers"], key=lambda one: not one["is_certain"])
        self._results = list(record["results"])
        self._lock = threading.Lock()

    def answer(self, sent: str) -> dict[str, Any]:
        """Return the answer to this last message, else the oldest one that is left. Raises LookupError."""
        with self._lock:
            same = [one for one in self._answers if one["sent"].strip() == sent.strip()]
            if not (found := (same or self._answers)[:1]):
                self.missing.append(f"an answer to {sent[:200]!r}")
                raise LookupError(f"The record has no {self.missing[-1]}.")
            self._answers.remove(found[0])
            return dict(found[0])

    def result(self, tool: str, arguments: Any) -> dict[str, Any]:
        """Return the result of the same call of the tool. Raises LookupError."""
        key = _plain_name(tool), canonical(arguments)
        with self._lock:
            for one in self._results:
                if (_plain_name(one["tool"]), canonical(one["arguments"])) == key:
                    self._results.remove(one)
                    return dict(one)
            self.missing.append(f"a result of {tool}({key[1][:200]})")
            raise LookupError(f"The record has no {self.missing[-1]}. The tool was not called.")

    def check(self, found: Any) -> None:
        """Raises AssertionError unless the run had what is expected, and used the whole record."""
        assert not self.missing, f"The record lacks {', '.join(self.missing)}."
        for name, value in self.expected.items():
            assert name in found, f"{name} is missing."
            same = json.loads(json.dumps(found[name], default=str))
            assert same == value, f"{name} differs: {same!r} instead of {value!r}"
        left = [f"an answer to {one['sent'][:80]!r}" for one in self._answers if one["is_certain"]]
        left += [f"a result of {one['tool']}" for one in self._results]
        assert not left, f"The run has not used these parts of the record: {', '.join(left)}."


@contextmanager
def replaced(replacements: list[tuple[Any, str, Callable[..., Any]]]) -> Iterator[None]:
    """Replace these methods within the block, and refuse connections to other machines and this one."""
    with ExitStack() as stack:
        for cls, name, method in replacements:
            stack.enter_context(patch.object(cls, name, method))
        for name in ("connect", "connect_ex"):
            stack.enter_context(patch.object(socket.socket, name, _refuse_connection))
        yield


def _refuse_connection(_socket: Any, address: Any) -> None:
    raise ConnectionRefusedError(f"A run with recorded answers connects to nothing, not to {address!r}.")


def in_thread(function: Callable[..., Any], *given: Any) -> Any:
    """Run the function in a new thread, and return its result: a notebook's thread runs an event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *given).result()


def entry_point(named: str) -> Any:
    """Return what ``module:attribute`` names in the project in this folder. Raises LookupError."""
    module, colon, attribute = named.partition(":")
    if not colon:
        raise LookupError("Write the project's entry point, module:attribute, to ENTRY_POINT.")
    os.environ.update(QUIET)
    for name in KEYS:
        os.environ.setdefault(f"{name}_API_KEY", "recorded")
    folder = Path.cwd()
    sys.path[:0] = [one for one in (str(folder), str(folder / "src")) if one not in sys.path]
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def classes_below(cls: type) -> list[type]:
    """Return the class and all classes that derive from it."""
    found = {cls: None}
    below: type
    for below in cls.__subclasses__():
        found |= dict.fromkeys(classes_below(below))
    return list(found)


def own_methods(cls: type, *names: str) -> list[tuple[type, str]]:
    """Return which of these methods the class and those below it define, each with its class."""
    return [(one, name) for one in classes_below(cls) for name in names if callable(vars(one).get(name))]


def canonical(arguments: Any) -> str:
    """Return a text that is equal for equal arguments, with or without those that are None."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return str(arguments).strip()
    if isinstance(arguments, dict):
        arguments = {
            name: value
            for name, value in arguments.items()
            if value is not None and name != "security_context"
        }
    return json.dumps(arguments, sort_keys=True, default=str)


def _plain_name(tool: str) -> str:
    letters = (one for one in unicodedata.normalize("NFKD", tool) if not unicodedata.combining(one))
    return re.sub(r"[\W_]+", "", "".join(letters).casefold())
