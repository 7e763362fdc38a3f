"""The stored copy of a checkpoint: its redacted JSON, compressed, and what the lineage needs of it."""

import hashlib
from collections.abc import Sequence
from typing import Any

import zstandard

from viewer.models import Checkpoint
from viewer.providers.redacted_json import decoded

EVENT_BYTES = 16
_compress = zstandard.ZstdCompressor(level=1)


def stored_bytes(checkpoint: Checkpoint) -> bytes:
    """The redacted JSON, as the engine laid it out."""
    return zstandard.ZstdDecompressor().decompress(bytes(checkpoint.body.data))


def stored_body(checkpoint: Checkpoint) -> dict[str, Any]:
    """The redacted checkpoint, decoded. What no number can hold comes as text."""
    body = decoded(stored_bytes(checkpoint))
    return body if isinstance(body, dict) else {}


def compressed(body: bytes) -> bytes:
    """The stored form of a redacted JSON text."""
    return _compress.compress(body)


def packed_events(event_ids: Sequence[str]) -> bytes:
    """Sixteen bytes for each id, in order: the id itself where it is a UUID, else what it hashes to."""
    text = "".join(event_ids).replace("-", "")
    if len(text) == 2 * EVENT_BYTES * len(event_ids):
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    return b"".join(hashlib.sha256(event_id.encode()).digest()[:EVENT_BYTES] for event_id in event_ids)


def unpacked_events(packed: bytes) -> tuple[str, ...]:
    """The ids as text, each the same wherever the event is met."""
    text = packed.hex()
    return tuple(text[at : at + 2 * EVENT_BYTES] for at in range(0, len(text), 2 * EVENT_BYTES))
