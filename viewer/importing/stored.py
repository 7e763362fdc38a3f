"""The stored copy of a checkpoint, read again."""

from typing import Any

import zstandard

from viewer.models import Checkpoint
from viewer.providers.redacted_json import decoded


def stored_bytes(checkpoint: Checkpoint) -> bytes:
    """The redacted JSON, as the engine laid it out."""
    return zstandard.ZstdDecompressor().decompress(bytes(checkpoint.body.data))


def stored_body(checkpoint: Checkpoint) -> dict[str, Any]:
    """The redacted checkpoint, decoded. What no number can hold comes as text."""
    body = decoded(stored_bytes(checkpoint))
    return body if isinstance(body, dict) else {}
