"""Texts that models stream in parts: a secret may be split over the objects that hold these.

Such objects are the items of a list, or the fields of an object, as CrewAI records its events. They have a
field ``delta`` or ``chunk``, or a type with such a name. Their texts at one place are judged as one text.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from viewer.redaction.keywords import STREAMED_KEYWORDS
from viewer.redaction.patterns import TextSpan, without_spans, words

PART_FIELDS = frozenset(words("delta chunk"))
# Fields that name the type of an object, and the ends of such names.
_KIND_FIELDS = frozenset(words("type __type__ object event id"))
_KINDS = ("delta", "Delta", "chunk", "Chunk")
# Fields that hold a part of a text.
_TEXT_FIELDS = PART_FIELDS | frozenset(
    words("content text arguments args partial_json input reasoning reasoning_content thinking refusal")
)
# Fields that distinguish streams that arrive together.
_STREAM_FIELDS = frozenset(words("index output_index agent_id call_id"))
# Levels inside such an object at which its type and its texts are.
MAX_KIND_DEPTH, MAX_TEXT_DEPTH = 4, 7

Path = tuple[str | int, ...]
Spans = Callable[[bytes], list[TextSpan]]


class _Part(NamedTuple):
    """A part of a text: the position of its object among the others, and its place in that."""

    number: int
    path: Path
    text: bytes


def may_have_parts(value: Any) -> bool:
    """Return whether an object in a value, also in JSON inside a text, may hold a part of a text."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if not PART_FIELDS.isdisjoint(item):
                return True
            pending += item.values()
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, str) and (
            item.endswith(_KINDS) or any(sign in item for sign in STREAMED_KEYWORDS)
        ):
            return True
    return False


def without_streamed(items: list[Any], spans_in: Spans) -> list[Any]:
    """Return objects without the secrets in the texts that they have together."""
    streams: dict[Any, list[_Part]] = {}
    for number, item in enumerate(items):
        if isinstance(item, dict) and _is_part(item):
            for stream, path, text in _texts_in(item):
                part = _Part(number, path, text.encode("utf-8", "surrogatepass"))
                streams.setdefault(stream, []).append(part)
    clean = list(items)
    for parts in streams.values():
        for part, spans in _hidden_in(parts, spans_in) if len(parts) > 1 else ():
            text = without_spans(part.text, spans).decode("utf-8", "surrogatepass")
            clean[part.number] = _with_text(clean[part.number], part.path, text)
    return clean


def _is_part(item: Any, depth: int = 0) -> bool:
    if depth > MAX_KIND_DEPTH or not isinstance(item, dict | list):
        return False
    if isinstance(item, list):
        return bool(item) and _is_part(item[0], depth + 1)
    kinds = [item[name] for name in _KIND_FIELDS & item.keys()]
    if not PART_FIELDS.isdisjoint(item) or any(map(_names_part, kinds)):
        return True
    return any(_is_part(inner, depth + 1) for inner in item.values())


def _names_part(kind: Any) -> bool:
    """Return whether the type of an object, or the last of its names, ends like that of a part."""
    kind = kind[-1] if isinstance(kind, list) and kind else kind
    return isinstance(kind, str) and kind.endswith(_KINDS)


def _texts_in(
    item: Any, path: Path = (), name: str = "", stream: Path = ()
) -> Iterator[tuple[Path, Path, str]]:
    """Yield each text of a part, with the key of its stream and its path."""
    if isinstance(item, str):
        if name in _TEXT_FIELDS:
            yield (*stream, *path), path, item
    elif len(path) < MAX_TEXT_DEPTH and isinstance(item, dict):
        ids = (item[field] for field in sorted(_STREAM_FIELDS & item.keys()))
        stream = (*stream, *(one for one in ids if isinstance(one, str | int)))
        for field, inner in item.items():
            yield from _texts_in(inner, (*path, field), field, stream)
    elif len(path) < MAX_TEXT_DEPTH and isinstance(item, list):
        for at, inner in enumerate(item):
            yield from _texts_in(inner, (*path, at), name, stream)


def _hidden_in(parts: list[_Part], spans_in: Spans) -> Iterator[tuple[_Part, list[TextSpan]]]:
    """Yield the parts that hold secrets of the whole text, with the spans of these in each."""
    starts, size = [], 0
    for part in parts:
        starts.append(size)
        size += len(part.text)
    found: dict[int, list[TextSpan]] = {}
    for start, end in spans_in(b"".join(part.text for part in parts)):
        for at in range(bisect_right(starts, start) - 1, bisect_right(starts, end - 1)):
            first = starts[at]
            span = max(start - first, 0), min(end - first, len(parts[at].text))
            if span[0] < span[1]:
                found.setdefault(at, []).append(span)
    yield from ((parts[at], spans) for at, spans in found.items())


def _with_text(value: Any, path: Path, text: str) -> Any:
    """Return a copy of a value with another text at this place."""
    if not path:
        return text
    copy = value.copy()
    copy[path[0]] = _with_text(value[path[0]], path[1:], text)
    return copy
