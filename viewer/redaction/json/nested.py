"""JSON inside a text: decoded to be judged, and written again with nothing else changed."""

import json
from collections.abc import Iterator
from typing import Any

from viewer.redaction.patterns import compiled

# Texts of JSON inside texts of JSON are decoded so deep; what lies deeper is judged as a text.
MAX_NESTING = 12
_SCALAR = compiled(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+\-]*|true|false|null|NaN|-?Infinity')


def json_inside(text: str) -> Any:
    """The object or list that a text holds as JSON; None where it holds none."""
    if len(text) < 8 or text[:100].lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def rewritten(text: str, before: Any, after: Any) -> str:
    """The JSON ``text`` of the value ``before`` as that of ``after``: only what differs is written again."""
    old, new = list(_scalars(before)), list(_scalars(after))
    data = text.encode("utf-8", "surrogatepass")
    places = [found.span() for found in _SCALAR.finditer(data)]
    if not len(old) == len(new) == len(places):
        # A name stands there twice, or two names have become one.
        return json.dumps(after)
    parts: list[bytes] = []
    position = 0
    for (start, end), was, now in zip(places, old, new, strict=True):
        if was is not now and was != now:
            is_ascii = data[start:end].isascii()
            written = json.dumps(now, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
            parts += (data[position:start], written)
            position = end
    return b"".join((*parts, data[position:])).decode("utf-8", "surrogatepass")


def _scalars(value: Any) -> Iterator[Any]:
    """Every name and plain value, in the order in which they are written."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            for name, inner in reversed(item.items()):
                waiting += (inner, _Name(name))
        elif isinstance(item, list):
            waiting += reversed(item)
        else:
            yield str(item) if isinstance(item, _Name) else item


class _Name(str):
    """A name of an object's field, told from a text that is a value."""
