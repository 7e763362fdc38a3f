"""The entries of one checkpoint, from what its engine decodes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Any

from viewer.engines import engine_of
from viewer.engines.search_texts import SearchText, TextKind
from viewer.models import Location

# Characters of a text, and texts of a checkpoint, that are indexed.
MAX_TEXT, MAX_TEXTS = 20_000, 5_000
# Texts of these kinds are different ones if they belong to different units.
_OF_UNITS = (TextKind.OUTPUT, TextKind.PROMPT)
# Control characters, and what UTF-8 cannot hold.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f]")
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A text as rows store it. Texts with the same ``digest`` are one entry of their run."""

    digest: bytes
    kind: str
    query_string: str
    unit: str
    agent: str
    model: str
    text: str


def entries_of(location: Location, body: dict[str, Any]) -> list[NewEntry]:
    """The entries of a redacted checkpoint, each once."""
    engine = engine_of(location)
    texts = engine.search_texts(engine.contents_of(body))
    return list({entry.digest: entry for entry in reversed(list(_entries(texts)))}.values())[::-1]


def _entries(texts: Iterator[SearchText]) -> Iterator[NewEntry]:
    for found in islice(texts, MAX_TEXTS):
        text = clean(found.text[:MAX_TEXT])
        if not text:
            continue
        unit, agent = clean(found.unit)[:300], clean(found.agent)[:300]
        owner = f"{unit}\0{agent}" if found.kind in _OF_UNITS else ""
        digest = blake2b(f"{found.kind}\0{owner}\0{text}".encode(), digest_size=16).digest()
        model = clean(found.model)[:200]
        yield NewEntry(digest, found.kind.value, found.query_string[:100], unit, agent, model, text)


def clean(text: str) -> str:
    """The text without control characters, which mark matches, and without what UTF-8 cannot hold."""
    return _HALF.sub("?", _CONTROL.sub(" ", text)).strip()
