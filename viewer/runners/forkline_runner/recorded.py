"""Answers the model and tool calls of a run from its record, and refuses the network meanwhile.

An exported test has the source of this module, so it needs the standard library only.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import socket
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

# Clients of models read a key when they are made. These stay in the process, and nothing is sent.
KEYS = ("ANTHROPIC", "AZURE", "COHERE", "DEEPSEEK", "GEMINI", "GOOGLE", "GROQ", "MISTRAL", "OPENAI", "XAI")
# What engines add to the arguments that a model writes.
ADDED = ("security_context",)
# The role, text and requested tools of a message: the name and arguments of each.
Message = tuple[str, str, list[tuple[str, Any]]]
# Methods by name, for each class. None takes one away that only some classes have.
Replacements = list[tuple[type, dict[str, Callable[..., Any] | None]]]
QUIET = {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TESTING": "true", "CREWAI_TRACING_ENABLED": "false"}
QUIET |= {"CREWAI_DISABLE_TRACKING": "true", "CREWAI_DISABLE_VERSION_CHECK": "true"}
QUIET |= {"OTEL_SDK_DISABLED": "true", "LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}
# Audit events of Python's sockets, before an address is looked up or anything is sent to it.
CONNECTING = frozenset(
    f"socket.{name}"
    for name in (
        *("connect", "getaddrinfo", "gethostbyaddr", "gethostbyname", "getnameinfo"),
        *("sendmsg", "sendto"),
    )
)
_allowed = threading.local()
# Not empty while connections are refused.
_refusals: list[object] = []


class Record:
    """The recorded answers and results, each used once. ``missing`` are the calls that it cannot answer.

    An answer goes to the messages that it answered, of the same model if several models were sent them. If
    it ``answers_in_order``, other messages get the answer to the same last message, else the oldest one.
    """

    def __init__(self, record: dict[str, Any], *, answers_in_order: bool = True) -> None:
        self.inputs: Any = record.get("inputs")
        self.expected = record.get("expected", {})
        self.missing: list[str] = []
        self._answers = sorted(record["answers"], key=lambda one: not one["is_certain"])
        self._answers_in_order = answers_in_order
        self._models: dict[str, set[str]] = {}
        for one in self._answers:
            self._models.setdefault(one["messages"], set()).add(one["model"])
        self._results = list(record["results"])
        self._lock = threading.Lock()

    def answer(self, messages: list[Message], model: str = "", agent: str = "") -> dict[str, Any]:
        """Return the answer to a model call. ``agent`` makes it. Raises LookupError."""
        sent = messages[-1][1] if messages else ""
        with self._lock:
            found = self._found(digest_of(messages), sent.strip(), model)
            if found:
                self._answers.remove(found)
            if not found or found["text"] is None:
                self.missing.append(f"an answer to {sent[:200]!r}")
                raise LookupError(f"The record has no {self.missing[-1]}.")
            return dict(found)

    def _found(self, digest: str, sent: str, model: str) -> dict[str, Any] | None:
        is_named = model in self._models.get(digest, ())
        same = (one for one in self._answers if digest and one["messages"] == digest)
        found = next((one for one in same if not is_named or one["model"] == model), None)
        if found or not self._answers_in_order:
            return found
        left = [one for one in self._answers if one["is_in_order"]]
        return next((one for one in left if one["sent"].strip() == sent), left[0] if left else None)

    def result(self, tool: str, arguments: Any) -> dict[str, Any]:
        """Return the result of the same call of the tool. Raises LookupError."""
        key = plain_name(tool), canonical(arguments)
        with self._lock:
            for one in self._results:
                if (plain_name(one["tool"]), canonical(one["arguments"])) == key:
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
def replaced(replacements: Replacements) -> Iterator[None]:
    """Replace these methods within the block, and refuse connections to other machines and this one.

    They are replaced in each class and in those that derive from it, also in those that are defined later.
    """
    with ExitStack() as stack:
        for base, methods in replacements:
            for cls in classes_below(base):
                for name, method in methods.items():
                    stack.enter_context(patch.object(cls, name, method, create=True))
            stack.enter_context(patch.object(base, "__init_subclass__", _later(base, _replace, methods)))
        stack.enter_context(_refused_connections())
        yield


def _replace(cls: type, methods: dict[str, Callable[..., Any] | None]) -> None:
    for name, method in methods.items():
        setattr(cls, name, method)


def change_classes(base: Any, change: Callable[..., None], *given: Any) -> None:
    """Call ``change`` with the class, those that derive from it, and those that are defined later."""
    for cls in classes_below(base):
        change(cls, *given)
    base.__init_subclass__ = _later(base, change, *given)


def _later(base: Any, change: Callable[..., None], *given: Any) -> Any:
    """Return an ``__init_subclass__`` of a class that changes each new one that derives from it."""
    original = vars(base).get("__init_subclass__")

    def defined(cls: type, /, **options: Any) -> None:
        if original:
            original.__func__(cls, **options)
        else:
            super(base, cls).__init_subclass__(**options)
        change(cls, *given)

    return classmethod(defined)


@contextmanager
def _refused_connections() -> Iterator[None]:
    """Refuse what Python's sockets would send within the block, whichever class or module asks for it."""
    _watch_connections()
    _refusals.append(object())
    try:
        yield
    finally:
        _refusals.pop()


@cache
def _watch_connections() -> None:
    """Have Python report connections, once: an audit hook stays as long as its process."""
    sys.addaudithook(_refuse)


def _refuse(event: str, given: tuple[Any, ...]) -> None:
    # A message of a connected socket has no address.
    is_sent = event in CONNECTING and given[-1 if event == "socket.sendmsg" else 0] is not None
    if is_sent and _refusals and not getattr(_allowed, "is_own", False):
        address = [one for one in given if not isinstance(one, socket.SocketType)]
        raise ConnectionRefusedError(f"A run with recorded answers connects to nothing, not to {address!r}.")


@contextmanager
def own_connection() -> Iterator[None]:
    """Let this thread connect within the block: to the store of checkpoints, which is no model."""
    _allowed.is_own = True
    try:
        yield
    finally:
        _allowed.is_own = False


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
    set_keys()
    folder = Path.cwd()
    sys.path[:0] = [one for one in (str(folder), str(folder / "src")) if one not in sys.path]
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def set_keys() -> None:
    """Set the keys that are not set: clients of models read one when they are made."""
    for name in KEYS:
        os.environ[f"{name}_API_KEY"] = os.environ.get(f"{name}_API_KEY") or "recorded"


def classes_below(cls: type) -> list[type]:
    """Return the class and all classes that derive from it."""
    found = {cls: None}
    below: type
    for below in cls.__subclasses__():
        found |= dict.fromkeys(classes_below(below))
    return list(found)


def digest_of(messages: list[Message]) -> str:
    """Return what is equal for equal messages, whatever their ids are.

    Forkline computes the same of a recorded call (``viewer/engines/recorded_calls.py``).
    """
    plain = [
        [role, text.strip(), [[name, _parsed(given)] for name, given in tools]]
        for role, text, tools in messages
    ]
    return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()


def _parsed(arguments: Any) -> Any:
    """Return arguments that a model wrote as JSON; others unchanged."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments


def canonical(arguments: Any) -> str:
    """Return a text that is equal for equal arguments, in any order, with or without those that are None.

    Numbers are equal if their values are: 1 and 1.0. A None inside an argument is a value, not a missing one.
    """
    parsed = _parsed(arguments)
    if parsed is arguments and isinstance(arguments, str):
        return arguments.strip()
    arguments = parsed
    if isinstance(arguments, Mapping):
        arguments = {name: one for name, one in arguments.items() if one is not None and name not in ADDED}
    try:
        return json.dumps(_with_equal_numbers(arguments), sort_keys=True, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        # Keys that are no texts, or that cannot be sorted, and values that hold themselves.
        return repr(arguments)


def _with_equal_numbers(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _with_equal_numbers(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_with_equal_numbers(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def plain_name(tool: str) -> str:
    """Return what is equal for two ways of writing a tool's name: searchArchive, "Search archive"."""
    letters = (one for one in unicodedata.normalize("NFKD", tool) if not unicodedata.combining(one))
    return re.sub(r"[\W_]+", "", "".join(letters).casefold())
