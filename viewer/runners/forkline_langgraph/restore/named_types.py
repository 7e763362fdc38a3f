"""The classes and functions that a stored value names. Reads the bytes; imports nothing that they name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# The engine's extension types (langgraph/checkpoint/serde/jsonplus.py) whose payload is module, name,
# argument and, for one, a method.
CONSTRUCTORS = range(6)
NUMPY, SNAPSHOT = 6, 7
HARMLESS = {"null", "empty", "bytes", "bytearray"}
# The one extension type that calls a method of what it names.
METHOD = 3
# The values of ``method`` with which older versions call the class itself, in JSON.
CONSTRUCTS = ([None, "construct"], "construct", "model_construct", None, "")


@dataclass(frozen=True, order=True)
class NamedType:
    """A class or function that is called; if ``method`` is not empty, that method of it is called."""

    module: str
    name: str
    method: str = ""

    def __str__(self) -> str:
        return ".".join(part for part in (self.module, self.name, self.method) if part)


class UnreadableValue(ValueError):
    """The stored value has an unknown type, or is malformed."""


class Pickled(UnreadableValue):
    """The stored value is a pickle, which can run any code when it is loaded."""


class Encrypted(UnreadableValue):
    """The stored value is encrypted."""


def named_in(kind: str | None, data: bytes | None) -> set[NamedType]:
    """Return the classes and functions that a value names. ``kind`` is its type column. Raises Unreadable."""
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
    except (ValueError, TypeError, RecursionError, IndexError) as error:
        raise UnreadableValue(str(error)) from error
    raise UnreadableValue(kind)


def _in_msgpack(data: bytes) -> Iterator[NamedType]:
    import ormsgpack

    found: list[NamedType] = []

    def unpacked(packed: bytes) -> Any:
        return ormsgpack.unpackb(packed, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)

    def hook(code: int, payload: bytes) -> None:
        if code in CONSTRUCTORS:
            parts = unpacked(payload)
            found.append(_named(code, parts))
        elif code in (NUMPY, SNAPSHOT):
            unpacked(payload)
        else:
            raise UnreadableValue(f"extension type {code}")

    unpacked(data)
    return iter(found)


def _named(code: int, parts: Any) -> NamedType:
    module, name, method = parts[0], parts[1], parts[3] if code == METHOD else ""
    if not all(isinstance(part, str) for part in (module, name, method)):
        raise UnreadableValue("a name that is not a text")
    return NamedType(module, name, method)


def _in_json(value: Any) -> Iterator[NamedType]:
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending += one
        elif isinstance(one, dict):
            pending += one.values()
            named = one.get("id")
            if "lc" in one and isinstance(named, list) and named:
                method = one.get("method")
                parts = [str(part) for part in named]
                yield NamedType(
                    ".".join(parts[:-1]), parts[-1], "" if method in CONSTRUCTS else json.dumps(method)
                )
