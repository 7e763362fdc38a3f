"""What a form showed as stored, so that a change which somebody made meanwhile is not overwritten."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

# The hidden field of a form.
SEEN = "seen"


def mark_of(*values: Any) -> str:
    """Return a digest of stored values, for the form that shows them."""
    return sha256(json.dumps(values, default=str).encode()).hexdigest()[:16]


def has_changed(data: Mapping[str, Any], *values: Any) -> bool:
    """Return whether the stored values differ from those that the sent form showed."""
    return SEEN in data and data[SEEN] != mark_of(*values)
