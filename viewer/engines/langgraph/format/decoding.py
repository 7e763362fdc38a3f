"""Decode the values that LangGraph serializes into plain JSON values, without importing or calling anything.

LangGraph's own serializer imports and calls what a value names. Here an object becomes
``{"__type__": "module.Class", "fields": …}``, and what cannot be decoded safely ``{"__opaque__": …}``.
"""

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import ormsgpack

from viewer.redaction.marker import MARKER
from viewer.stores.errors import Broken, LimitExceeded, Unreadable

# The codes of LangGraph's MessagePack extensions. A payload names a class, followed by its arguments.
ONE_ARGUMENT, ARGUMENTS, KEYWORDS, METHOD, PYDANTIC_1, PYDANTIC_2, ARRAY, SNAPSHOT = range(8)
_NAMED = {ONE_ARGUMENT, ARGUMENTS, KEYWORDS, METHOD, PYDANTIC_1, PYDANTIC_2}
# Classes whose values are serialized in clear text.
_SECRET_TYPES = ("SecretStr", "SecretBytes", "Secret")
_KEYS = ormsgpack.OPT_NON_STR_KEYS


@dataclass(frozen=True, slots=True)
class _Extension:
    """An extension whose payload has not been decoded yet."""

    code: int
    payload: bytes


def decoded_value(kind: str | None, data: bytes | None, max_depth: int) -> Any:
    """The value of a column whose encoding ``kind`` is stored in another column.

    Raises Broken if it cannot be decoded, and LimitExceeded if it is nested too deeply.
    """
    if data is None or kind in (None, "null"):
        return None
    if kind == "msgpack":
        return _plain(_unpacked(data), max_depth)
    if kind == "json":
        try:
            return _plain(msgspec.json.decode(data), max_depth)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise Broken("langgraph.value_invalid", kind="JSON") from None
    if kind in ("bytes", "bytearray"):
        return _bytes(data)
    return opaque(kind or "", len(data))


def value_or_placeholder(kind: str | None, data: bytes | None, size: int, max_depth: int) -> Any:
    """The decoded value of a column, or a placeholder if it is too large or cannot be decoded.

    ``data`` is None if it is too large. ``size`` is in bytes.
    """
    if data is None and size:
        return opaque("too large", size)
    try:
        return decoded_value(kind, data, max_depth)
    except Unreadable:
        return opaque(kind or "", size)


def opaque(kind: str, size: int) -> dict[str, Any]:
    """The placeholder of a value that is not decoded: pickled, encrypted, or of an unknown encoding."""
    reason = "pickled" if kind == "pickle" else "encrypted" if "+" in kind else "unknown"
    return {"__opaque__": reason, "encoding": kind[:100], "size": size}


def _bytes(data: bytes | bytearray | memoryview) -> dict[str, Any]:
    return {"__type__": "bytes", "size": len(data)}


def _unpacked(data: bytes) -> Any:
    try:
        return ormsgpack.unpackb(data, ext_hook=_Extension, option=_KEYS)
    except (ValueError, TypeError, RecursionError, UnicodeError):
        raise Broken("langgraph.value_invalid", kind="MessagePack") from None


def _plain(value: Any, depth: int) -> Any:
    """A decoded value as a JSON value, at most ``depth`` levels deep. Raises Broken or LimitExceeded."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth <= 0:
        raise LimitExceeded("langgraph.too_deep")
    if isinstance(value, _Extension):
        return _object(value, depth - 1)
    if isinstance(value, dict):
        return {_key(key): _plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth - 1) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(value)
    return str(value)


def _key(key: Any) -> str:
    """A key of a mapping as a text, since JSON has no other keys."""
    if isinstance(key, str):
        return key
    return "extension" if isinstance(key, _Extension) else str(key)


def _object(extension: _Extension, depth: int) -> Any:
    """The JSON value of a MessagePack extension. Nothing that it names is imported or called."""
    if extension.code == SNAPSHOT:
        return {"__type__": "DeltaSnapshot", "fields": _plain(_unpacked(extension.payload), depth)}
    if extension.code == ARRAY:
        return _array(_unpacked(extension.payload))
    if extension.code not in _NAMED:
        return opaque(f"extension {extension.code}", len(extension.payload))
    named = _unpacked(extension.payload)
    if not isinstance(named, list | tuple) or len(named) < 3:
        raise Broken("langgraph.value_invalid", kind="MessagePack")
    module, name, fields = str(named[0]), str(named[1]), named[2]
    if name in _SECRET_TYPES:
        return {"__type__": f"{module}.{name}", "fields": MARKER}
    return {"__type__": f"{module}.{name}", "fields": _plain(fields, depth)}


def _array(parts: Any) -> dict[str, Any]:
    """The type, shape and size of a numpy array, without its numbers."""
    if not isinstance(parts, list | tuple) or len(parts) != 4:
        raise Broken("langgraph.value_invalid", kind="MessagePack")
    kind, shape, _order, data = parts
    sizes = [str(size) for size in shape] if isinstance(shape, list | tuple) else []
    size = len(data) if isinstance(data, bytes | bytearray) else 0
    return {"__type__": "numpy.ndarray", "dtype": str(kind), "shape": " x ".join(sizes), "size": size}
