"""Decode the values that LangGraph serializes into plain JSON values, without importing or calling anything.

LangGraph's own serializer imports and calls what a value names. Here an object becomes
``{"__type__": "module.Class", "fields": …}``, and what cannot be decoded safely ``{"__opaque__": …}``.

A few bytes can encode millions of objects, and a decoder without memory ends its process. So the memory that
a value needs is estimated before it is decoded.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

import msgspec
import ormsgpack

from viewer.engines.langgraph.identifiers import valid_text
from viewer.redaction import MARKER
from viewer.redaction.names import is_secret_text, secrecy_of
from viewer.redaction.patterns import is_mixed, is_ordinary, looks_random
from viewer.stores.protocol import Broken, LimitExceeded, ReadLimits, Unreadable, too_much_memory

# The codes of LangGraph's MessagePack extensions. A payload names a class, followed by its arguments.
ONE_ARGUMENT, ARGUMENTS, KEYWORDS, METHOD, PYDANTIC_1, PYDANTIC_2, ARRAY, SNAPSHOT = range(8)
_NAMED = {ONE_ARGUMENT, ARGUMENTS, KEYWORDS, METHOD, PYDANTIC_1, PYDANTIC_2}
# Classes whose values are serialized in clear text.
_SECRET_TYPES = ("SecretStr", "SecretBytes", "Secret")
# Modules of Python whose objects are serialized with one argument. An object of another module is a member
# of an enumeration, or has the method ``get_secret_value``.
_PLAIN_MODULES = {
    "builtins",
    "collections",
    "datetime",
    "decimal",
    "ipaddress",
    "pathlib",
    "re",
    "uuid",
    "zoneinfo",
}
_KEYS = ormsgpack.OPT_NON_STR_KEYS
# Other programs read whole numbers of JSON up to this size.
_INTEGERS = range(-(2**63), 2**64)
# The share of a reader's memory for the values of one checkpoint. They exist twice while they are converted.
_SHARE_OF_MEMORY = 3
# More bytes of memory than any byte of MessagePack or JSON needs.
_MAX_GROWTH = 96
# Bytes of memory of a number, of an empty text and other object, and of each entry of a mapping.
_NUMBER, _TEXT, _OBJECT, _ENTRY = 48, 80, 96, 40
# Values of one byte, with the memory that each needs, and floating-point numbers. Matches are short enough to
# stop soon.
_SINGLE_BYTES = re.compile(rb"[\x00-\x9f\xc0\xc2\xc3\xe0-\xff]{1,65536}")
_OF_SINGLE_BYTE = [
    *[0] * 0x80,
    *[_OBJECT + (_OBJECT + _ENTRY * count if count else 0) for count in range(16)],
    *[_OBJECT + 8 * count for count in range(16)],
    *[0] * 0x60,
]
_FLOATS = re.compile(rb"(?:\xcb.{8}){1,8192}+", re.DOTALL)
# The bytes of a number after its first byte.
_NUMBERS = dict(zip(range(0xCA, 0xD4), (4, 8, 1, 2, 4, 8, 1, 2, 4, 8), strict=True))
# The bytes of a length after the first byte of a text, of bytes, and of an extension, which also has a code.
_LENGTHS = {0xD9: 1, 0xDA: 2, 0xDB: 4, 0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4}
_EXTENSIONS = {0xC7, 0xC8, 0xC9}
_FIXED_EXTENSIONS = dict(zip(range(0xD4, 0xD9), (1, 2, 4, 8, 16), strict=True))
_COUNTS = {0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
_MAPPINGS = {0xDE, 0xDF}
# Longer texts are inspected for characters that take more memory than in UTF-8.
_LONG_TEXT = 65_536
_JSON_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Extension:
    """An extension whose payload has not been decoded yet."""

    code: int
    payload: bytes


class Decoder:
    """Decodes the values of one checkpoint and its writes, which together take a part of the memory."""

    def __init__(self, limits: ReadLimits) -> None:
        self._limits = limits
        self._left = limits.max_memory // _SHARE_OF_MEMORY

    def value(self, kind: str | None, data: bytes | None) -> Any:
        """The value of a column whose encoding ``kind`` is stored in another column.

        Raises Broken if it cannot be decoded, and LimitExceeded if it is too large or nested too deeply.
        """
        if data is None or kind in (None, "null"):
            return None
        if kind == "msgpack":
            return self._plain(self._unpacked(data), self._limits.max_depth)
        if kind == "json":
            return self._plain(self._parsed(data), self._limits.max_depth)
        if kind in ("bytes", "bytearray"):
            return _bytes(data)
        return opaque(kind or "", len(data))

    def value_or_placeholder(self, kind: str | None, data: bytes | None, size: int) -> Any:
        """The decoded value of a column, or a placeholder if it is too large or cannot be decoded.

        ``data`` is None if it is too large. ``size`` is in bytes.
        """
        if data is None and size:
            return opaque("too large", size)
        left = self._left
        try:
            return self.value(kind, data)
        except LimitExceeded:
            self._left = left
            return opaque("too large", size)
        except Unreadable:
            self._left = left
            return opaque(kind or "", size)

    def _take(self, size: int) -> None:
        """Count memory that a value keeps. Raises LimitExceeded."""
        self._left -= size
        if self._left < 0:
            raise too_much_memory(self._limits)

    def _unpacked(self, data: bytes) -> Any:
        """The object in MessagePack. Raises Broken or LimitExceeded."""
        is_large = len(data) * _MAX_GROWTH > self._left
        if is_large and memory_of_msgpack(data, self._left) > self._left:
            raise too_much_memory(self._limits)
        try:
            return ormsgpack.unpackb(data, ext_hook=_Extension, option=_KEYS)
        except (ValueError, TypeError, RecursionError, UnicodeError):
            raise Broken("langgraph.value_invalid", kind="MessagePack") from None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            # Without memory, the library raises MemoryError or panics, which is no Exception.
            raise too_much_memory(self._limits) from None

    def _parsed(self, data: bytes) -> Any:
        """The object in JSON. Raises Broken or LimitExceeded."""
        is_large = len(data) * _MAX_GROWTH > self._left
        if is_large and _memory_of_json(data) > self._left:
            raise too_much_memory(self._limits)
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise Broken("langgraph.value_invalid", kind="JSON") from None
        except MemoryError:
            raise too_much_memory(self._limits) from None

    def _plain(self, value: Any, depth: int) -> Any:
        """A decoded value as a JSON value, at most ``depth`` levels deep. Raises Broken or LimitExceeded."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int):
            return value if value in _INTEGERS else str(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if depth <= 0:
            raise LimitExceeded("langgraph.too_deep")
        if isinstance(value, dict):
            self._take((2 * _OBJECT if value else _OBJECT) + _ENTRY * len(value))
            return {_key(key): self._plain(item, depth - 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            self._take(_OBJECT + 8 * len(value))
            return [self._plain(item, depth - 1) for item in value]
        # A mapping with two or three entries and at least one text.
        self._take(4 * _OBJECT)
        if isinstance(value, _Extension):
            return self._object(value, depth - 1)
        if isinstance(value, bytes | bytearray | memoryview):
            return _bytes(value)
        return str(value)

    def _object(self, extension: _Extension, depth: int) -> Any:
        """The JSON value of a MessagePack extension. Nothing that it names is imported or called."""
        if extension.code not in _NAMED | {SNAPSHOT, ARRAY}:
            return opaque(f"extension {extension.code}", len(extension.payload))
        # Extensions in extensions copy the bytes of the inner ones.
        self._take(len(extension.payload))
        parts = self._unpacked(extension.payload)
        if extension.code == SNAPSHOT:
            return {"__type__": "DeltaSnapshot", "fields": self._plain(parts, depth)}
        if extension.code == ARRAY:
            return _array(parts)
        if not isinstance(parts, list | tuple) or len(parts) < 3:
            raise Broken("langgraph.value_invalid", kind="MessagePack")
        module, name, fields = str(parts[0]), str(parts[1]), parts[2]
        # The name of a generic class includes its parameter: ``Secret[date]``.
        is_secret = name.partition("[")[0] in _SECRET_TYPES
        if extension.code == ONE_ARGUMENT and module not in _PLAIN_MODULES:
            is_secret |= _is_held_secret(name, fields)
        if is_secret:
            return {"__type__": f"{module}.{name}", "fields": MARKER}
        return {"__type__": f"{module}.{name}", "fields": self._plain(fields, depth)}


def _is_held_secret(name: str, value: Any) -> bool:
    """Whether a class with this name, of a project, holds this value as a secret.

    The serializer stores the value of whatever has a method ``get_secret_value``.
    """
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if not isinstance(text, str):
        return False
    if "secret" in name.lower() or is_secret_text(text, secrecy_of(name)):
        return bool(text)
    return looks_random(text) and is_mixed(text) and not is_ordinary(text)


def memory_of_msgpack(data: bytes, most: int) -> int:
    """About how many bytes of memory an object in MessagePack needs. Stops counting beyond ``most``.

    Reads one header after the other, and needs no memory itself. Invalid data may give any number.
    """
    at, end, needed = 0, len(data), 0
    while at < end and needed <= most:
        first = data[at]
        if 0xA0 <= first < 0xC0:
            needed += _TEXT + (first & 0x1F)
            at += 1 + (first & 0x1F)
        elif singles := _SINGLE_BYTES.match(data, at):
            needed += sum(map(_OF_SINGLE_BYTE.__getitem__, singles[0]))
            at = singles.end()
        elif floats := _FLOATS.match(data, at):
            needed += _NUMBER * ((floats.end() - at) // 9)
            at = floats.end()
        elif first in _NUMBERS:
            needed += _NUMBER
            at += 1 + _NUMBERS[first]
        elif first in _COUNTS:
            width = _COUNTS[first]
            count = min(int.from_bytes(data[at + 1 : at + 1 + width], "big"), end - at)
            needed += _OBJECT + (_OBJECT + _ENTRY * count if first in _MAPPINGS else 8 * count)
            at += 1 + width
        else:
            width = _LENGTHS.get(first, 0)
            length = _FIXED_EXTENSIONS.get(first, 0)
            if width:
                length = int.from_bytes(data[at + 1 : at + 1 + width], "big")
            is_extension = first in _EXTENSIONS or first in _FIXED_EXTENSIONS
            at += 1 + width + is_extension
            is_wide = length > _LONG_TEXT and not data[at : at + length].isascii()
            # The plain value of an extension is a mapping.
            needed += (5 if is_extension else 1) * _OBJECT
            needed += min(length, max(0, end - at)) * (4 if is_wide else 1)
            at += length
    return needed


def _memory_of_json(data: bytes) -> int:
    """About how many bytes of memory an object in JSON needs."""
    needed = len(data) * (1 if data.isascii() else 4)
    outside = _JSON_STRING.sub(b"_", data)
    containers = outside.count(b"{") + outside.count(b"[")
    entries = outside.count(b":") * _ENTRY + outside.count(b",") * _NUMBER
    return needed + containers * _OBJECT + entries + outside.count(b"_") * _OBJECT


def opaque(kind: str, size: int) -> dict[str, Any]:
    """The placeholder of a value that is not decoded: pickled, encrypted, or of an unknown encoding."""
    reason = "pickled" if kind == "pickle" else "encrypted" if "+" in kind else "unknown"
    return {"__opaque__": reason, "encoding": valid_text(kind[:100]), "size": size}


def _bytes(data: bytes | bytearray | memoryview) -> dict[str, Any]:
    return {"__type__": "bytes", "size": len(data)}


def _key(key: Any) -> str:
    """A key of a mapping as a text, since JSON has no other keys."""
    if isinstance(key, str):
        return key
    return "extension" if isinstance(key, _Extension) else str(key)


def _array(parts: Any) -> dict[str, Any]:
    """The type, shape and size of a numpy array, without its numbers."""
    if not isinstance(parts, list | tuple) or len(parts) != 4:
        raise Broken("langgraph.value_invalid", kind="MessagePack")
    kind, shape, _order, data = parts
    sizes = [str(size) for size in shape] if isinstance(shape, list | tuple) else []
    size = len(data) if isinstance(data, bytes | bytearray) else 0
    return {"__type__": "numpy.ndarray", "dtype": str(kind), "shape": " x ".join(sizes), "size": size}
