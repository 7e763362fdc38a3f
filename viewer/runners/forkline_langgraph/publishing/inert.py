"""A serializer for the engine's savers that writes stored values unchanged, and loads none of them."""

from __future__ import annotations

import json
from typing import Any

from forkline_langgraph.restore.inert_values import packed

SNAPSHOT_CLASS = "_DeltaSnapshot"


class InertValue:
    """A stored value: its type and its bytes."""

    def __init__(self, kind: str, data: bytes) -> None:
        self.kind, self.data = kind, data


class InertCheckpoint(dict[str, Any]):
    """A stored checkpoint. As a dictionary it has only its id, which is all that a saver reads."""

    def __init__(self, identifier: str, kind: str, data: bytes) -> None:
        super().__init__(id=identifier)
        self.kind, self.data = kind, data


class InertSerializer:
    """Writes stored values unchanged. Metadata is plain JSON."""

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        """Return the type and bytes of a stored value, or of a value without objects. Raises TypeError."""
        if isinstance(value, InertValue | InertCheckpoint):
            return value.kind, value.data
        if type(value).__name__ == SNAPSHOT_CLASS:
            return "msgpack", packed(value.value)
        if value is None:
            return "null", b""
        return ("bytes", value) if isinstance(value, bytes) else ("msgpack", packed(value))

    def loads_typed(self, data: tuple[str, bytes]) -> InertValue:
        return InertValue(*data)

    def dumps(self, metadata: Any) -> bytes:
        return json.dumps(metadata, ensure_ascii=False).encode("utf-8", "ignore")

    def loads(self, data: bytes) -> Any:
        return json.loads(data)
