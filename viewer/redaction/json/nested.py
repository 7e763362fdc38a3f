"""JSON inside a text: decoded, and written again with only what was redacted changed."""

import json
from collections.abc import Iterator
from typing import Any

from viewer.redaction.patterns import compiled

# Levels of JSON inside JSON that are decoded. What is deeper is redacted as a text.
MAX_NESTING = 12
_SCALAR = compiled(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+\-]*|true|false|null|NaN|-?Infinity')


def json_inside(text: str) -> Any:
    """Return the object or list if the text is JSON of one; else None."""
    if len(text) < 8 or text[:100].lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def rewritten(text: str, before: Any, after: Any) -> str:
    """Return the JSON text of ``after``, in which only what differs from ``before`` is written again."""
    old, new = list(_scalars(before)), list(_scalars(after))
    data = text.encode("utf-8", "surrogatepass")
    spans = [found.span() for found in _SCALAR.finditer(data)]
    if not len(old) == len(new) == len(spans):
        # A name occurs twice, or two names have become one.
        return json.dumps(after)
    parts: list[bytes] = []
    position = 0
    for (start, end), was, now in zip(spans, old, new, strict=True):
        if was is not now and was != now:
            is_ascii = data[start:end].isascii()
            written = json.dumps(now, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
            parts += (data[position:start], written)
            position = end
    return b"".join((*parts, data[position:])).decode("utf-8", "surrogatepass")


def _scalars(value: Any) -> Iterator[Any]:
    """Yield every name and scalar, in the order in which they are written."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            for name, inner in reversed(item.items()):
                pending += (inner, _Name(name))
        elif isinstance(item, list):
            pending += reversed(item)
        else:
            yield str(item) if isinstance(item, _Name) else item


class _Name(str):
    """The name of a field, to distinguish it from a value."""
