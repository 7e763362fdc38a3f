"""The stored copy of a checkpoint, read again."""

from typing import Any

import zstandard

from viewer.importing.limits import limits
from viewer.models import Checkpoint
from viewer.redaction.json_bytes import decoded


def stored_bytes(checkpoint: Checkpoint) -> bytes:
    """The redacted JSON, as the engine laid it out."""
    return zstandard.ZstdDecompressor().decompress(bytes(checkpoint.body.data))


def stored_body(checkpoint: Checkpoint) -> dict[str, Any]:
    """The redacted checkpoint, decoded. What no number can hold comes as text.

    Empty where it nests deeper than the limit: an import looks that closely only where brackets tell of it.
    """
    try:
        body = decoded(stored_bytes(checkpoint))
    except RecursionError:
        return {}
    return body if isinstance(body, dict) and not nests_deeper(body, limits().most_depth) else {}


def nests_deeper(value: Any, most: int) -> bool:
    """Whether a decoded JSON value has more levels of objects and lists than this."""
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        if depth > most:
            return True
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return False
