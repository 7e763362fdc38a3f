"""Decodes and encodes stored values without loading what they name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# The engine's extension type of a channel's snapshot (langgraph/checkpoint/serde/jsonplus.py).
SNAPSHOT = 7


@dataclass(frozen=True)
class InertObject:
    """An object as the engine's serializer stored it: the code of its extension type, and its bytes."""

    code: int
    data: bytes


def unpacked(data: bytes) -> Any:
    """Return the decoded value, with each object as an ``InertObject``."""
    import ormsgpack

    return ormsgpack.unpackb(data, ext_hook=InertObject, option=ormsgpack.OPT_NON_STR_KEYS)


def packed(value: Any) -> bytes:
    """Return the bytes of a value that ``unpacked`` returned, or of one made of such values."""
    import ormsgpack

    option = ormsgpack.OPT_NON_STR_KEYS | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    return bytes(ormsgpack.packb(value, default=_ext, option=option))


def _ext(value: Any) -> Any:
    import ormsgpack

    if not isinstance(value, InertObject):
        raise TypeError(type(value).__name__)
    return ormsgpack.Ext(value.code, value.data)
