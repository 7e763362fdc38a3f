"""The stored copy of a checkpoint."""

from typing import Any

import zstandard
from django.conf import settings

from viewer.engines import engine_of
from viewer.engines.protocol import Contents
from viewer.importing.limits import limits
from viewer.models import Checkpoint
from viewer.redaction.json.document import decoded

# Bytes of memory for the decoded values of one checkpoint.
MAX_MEMORY_OF_VALUES = 256 * 1024 * 1024
_BYTES_A_VALUE = 64


def stored_bytes(checkpoint: Checkpoint) -> bytes:
    """The redacted JSON, as the engine laid it out."""
    return zstandard.ZstdDecompressor().decompress(bytes(checkpoint.body.data))


def stored_body(checkpoint: Checkpoint) -> dict[str, Any]:
    """The redacted checkpoint, decoded. Numbers that Python cannot represent are texts.

    Empty if it is nested deeper than the limit, which an import checks only if its brackets suggest it. Also
    empty if it is larger than what is shown, or if its values would take too much memory.
    """
    if zstandard.frame_content_size(bytes(checkpoint.body.data)) > settings.CHECKPOINT_MAX_SHOWN_BYTES:
        return {}
    data = stored_bytes(checkpoint)
    if memory_of_values(data) > MAX_MEMORY_OF_VALUES:
        return {}
    try:
        body = decoded(data)
    except RecursionError:
        return {}
    return body if isinstance(body, dict) and not nests_deeper(body, limits().max_depth) else {}


def stored_contents(checkpoint: Checkpoint) -> Contents:
    """The contents of the stored copy, as the location's engine decodes them."""
    contents: Contents = engine_of(checkpoint.location).contents_of(stored_body(checkpoint))
    return contents


def memory_of_values(data: bytes) -> int:
    """An upper bound of the bytes that the decoded values of a JSON text take: the shortest takes 64."""
    values = sum(data.count(mark) for mark in (b",", b":", b"[", b"{"))
    return len(data) + _BYTES_A_VALUE * values


def nests_deeper(value: Any, most: int) -> bool:
    """Whether a decoded JSON value has more levels of objects and lists than this."""
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        if depth > most:
            return True
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return False
