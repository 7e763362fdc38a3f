"""The classes and functions that a stored value names. Reads the bytes; imports nothing that they name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from forkline_runner.effects import HIDDEN, is_secret, shortened_text

# The engine's extension types (langgraph/checkpoint/serde/jsonplus.py) whose payload is module, name,
# argument and, for some, a method.
CONSTRUCTORS = range(6)
NUMPY, SNAPSHOT = 6, 7
HARMLESS = {"null", "empty", "bytes", "bytearray"}
# The methods that the engine itself stores with pydantic's models. It calls the class instead.
STORED_METHODS = {4: ("construct",), 5: ("model_validate_json", "model_construct")}
# The values of ``method`` with which older versions call the class itself, in JSON.
CONSTRUCTS = ([None, "construct"], "construct", "model_construct", None, "")
# The values of ``lc`` that make the engine revive a JSON object: its own and LangChain's.
OWN_JSON, LANGCHAIN_JSON = 2, 1
# How much of the arguments is shown.
MAX_ITEMS = 8
MAX_NESTING = 4


@dataclass(frozen=True, order=True)
class NamedType:
    """A class or function that is called; if ``method`` is not empty, that method of it is called.

    ``stored`` is everything that it is called with, as it is stored; ``given`` is the same, decoded.
    """

    module: str
    name: str
    method: str = ""
    stored: bytes = b""
    given: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return ".".join(part for part in (self.module, self.name, self.method) if part)

    @property
    def arguments(self) -> str:
        """A short text of the arguments, without the values of secret fields."""
        return HIDDEN if is_secret(self.name) else _shown(self.given)

    @property
    def text(self) -> str | None:
        """The only argument, if that is a text."""
        only = self.given[0] if isinstance(self.given, list) and len(self.given) == 1 else self.given
        return only if isinstance(only, str) else None

    @property
    def digest(self) -> str:
        """A hash of everything that it is called with."""
        return hashlib.sha256(self.stored).hexdigest()


class UnreadableValue(ValueError):
    """The stored value has an unknown type, or is malformed."""


class Pickled(UnreadableValue):
    """The stored value is a pickle, which can run any code when it is loaded."""


class Encrypted(UnreadableValue):
    """The stored value is encrypted."""


def named_in(kind: str | None, data: bytes | None) -> set[NamedType]:
    """Return the classes and functions that a value names. ``kind`` is its type column.

    Raises UnreadableValue.
    """
    if kind is None or kind in HARMLESS or not data:
        return set()
    if "+" in kind:
        raise Encrypted(kind)
    if kind == "pickle":
        raise Pickled(kind)
    try:
        if kind == "msgpack":
            return set(_in_msgpack(data))
        if kind == "json":
            return set(_in_json(json.loads(data)))
    except UnreadableValue:
        raise
    except (ValueError, TypeError, RecursionError, LookupError) as error:
        raise UnreadableValue(str(error)) from error
    raise UnreadableValue(kind)


def _in_msgpack(data: bytes) -> Iterator[NamedType]:
    import ormsgpack

    found: list[NamedType] = []

    def unpacked(packed: bytes) -> Any:
        return ormsgpack.unpackb(packed, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)

    def hook(code: int, payload: bytes) -> Any:
        if code in CONSTRUCTORS:
            named = _named(code, unpacked(payload), payload)
            found.append(named)
            return named
        if code in (NUMPY, SNAPSHOT):
            inner = unpacked(payload)
            return inner if code == SNAPSHOT else "numpy.ndarray"
        raise UnreadableValue(f"extension type {code}")

    unpacked(data)
    return iter(found)


def _named(code: int, parts: Any, payload: bytes) -> NamedType:
    # Anything but a list could differ from what the engine reads in its place.
    if not isinstance(parts, list) or len(parts) < 3:
        raise UnreadableValue("an object without a name")
    module, name = parts[:2]
    method = parts[3] if len(parts) > 3 else None
    if method in STORED_METHODS.get(code, ()):
        method = None
    if not all(isinstance(part, str) for part in (module, name, method or "")):
        raise UnreadableValue("a name that is not a text")
    return NamedType(module, name, method or "", bytes([code]) + payload, parts[2])


def _in_json(value: Any) -> Iterator[NamedType]:
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending += one
        elif isinstance(one, dict):
            pending += one.values()
            # Compared as the engine does: 2.0 and true count as well.
            if one.get("lc") in (OWN_JSON, LANGCHAIN_JSON) and one.get("id") is not None:
                yield _named_in_json(one)


def _named_in_json(one: dict[str, Any]) -> NamedType:
    path = one["id"]
    # The engine unpacks the id: of a mapping its keys, of an object whatever that yields.
    if not isinstance(path, list) or not path or not all(isinstance(part, str) for part in path):
        raise UnreadableValue("an object whose id is not a list of texts")
    if one["lc"] == LANGCHAIN_JSON:
        path = LANGCHAIN_PATHS.get(tuple(path), path)
    method = one.get("method")
    given = {name: one[name] for name in ("args", "kwargs") if one.get(name)}
    stored = json.dumps([one["lc"], one.get("type"), given], sort_keys=True).encode(errors="replace")
    arguments = next(iter(given.values()), None) if len(given) < 2 else given
    return NamedType(
        ".".join(path[:-1]), path[-1], "" if method in CONSTRUCTS else json.dumps(method), stored, arguments
    )


def _shown(value: Any, depth: int = 0) -> str:
    """Return a short text of a decoded value, without the values of secret fields."""
    if depth >= MAX_NESTING and isinstance(value, NamedType | list | dict):
        return "…"
    if isinstance(value, NamedType):
        return f"{value} {HIDDEN if is_secret(value.name) else _shown(value.given, depth + 1)}"
    if isinstance(value, list):
        shown = [_shown(item, depth + 1) for item in value[:MAX_ITEMS]]
    elif isinstance(value, dict):
        shown = [
            f"{_shown(name, depth + 1)}={HIDDEN if is_secret(str(name)) else _shown(item, depth + 1)}"
            for name, item in list(value.items())[:MAX_ITEMS]
        ]
    else:
        return shortened_text(value if isinstance(value, str) else repr(value))
    if len(value) > MAX_ITEMS:
        shown.append(f"… ({len(value)})")
    return "(" + ", ".join(shown) + ")"


# Where LangChain's loader finds the messages and documents that older versions named by their former module
# (langchain_core/load/mapping.py).
LANGCHAIN_PATHS = {
    **{
        ("langchain", "schema", "messages", name): ["langchain_core", "messages", module, name]
        for module, names in {
            "ai": ("AIMessage", "AIMessageChunk"),
            "base": ("BaseMessage", "BaseMessageChunk"),
            "chat": ("ChatMessage",),
            "function": ("FunctionMessage",),
            "human": ("HumanMessage",),
            "modifier": ("RemoveMessage",),
            "system": ("SystemMessage",),
            "tool": ("ToolMessage",),
        }.items()
        for name in names
    },
    ("langchain", "schema", "document", "Document"): ["langchain_core", "documents", "base", "Document"],
}
