"""Long equal stretches of a compared text, folded."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from viewer.comparison.diff.words import Piece, Pieces

_WORD = re.compile(r"\S+\s*")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# How many words or lines are shown before and after a change, and how many more a fold needs.
_CONTEXT = {"words": 18, "lines": 3}
_LEAST = {"words": 24, "lines": 4}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Pieces of a text. ``folded`` is how many words or lines it hides, 0 if it is shown."""

    pieces: tuple[Piece, ...]
    folded: int = 0


def folded(pieces: Pieces, unit: str) -> list[Stretch]:
    """Return the pieces with long equal stretches folded. ``unit`` is ``words`` or ``lines``.

    A text without any change is one stretch that is shown.
    """
    if not any(piece.changed for piece in pieces):
        return [Stretch(tuple(pieces))]
    stretches: list[Stretch] = []
    shown: list[Piece] = []
    for at, piece in enumerate(pieces):
        for text, count in _parts(piece, unit, at == 0, at == len(pieces) - 1):
            if count:
                stretches += [Stretch(tuple(shown))] if shown else []
                stretches.append(Stretch((Piece(text, False),), count))
                shown = []
            elif text:
                shown.append(Piece(text, piece.changed))
    return stretches + ([Stretch(tuple(shown))] if shown else [])


def _parts(piece: Piece, unit: str, is_first: bool, is_last: bool) -> Iterator[tuple[str, int]]:
    """The texts of a piece, each with the number of words or lines that it hides."""
    pattern, context = (_LINE if unit == "lines" else _WORD), _CONTEXT[unit]
    ends = [] if piece.changed else [match.end() for match in pattern.finditer(piece.text)]
    head, tail = (0 if is_first else context), (0 if is_last else context)
    hidden = len(ends) - head - tail
    if hidden < _LEAST[unit]:
        yield piece.text, 0
        return
    start, end = ends[head - 1] if head else 0, ends[len(ends) - tail - 1]
    yield piece.text[:start], 0
    yield piece.text[start:end], hidden
    yield piece.text[end:], 0


def merged(texts: Sequence[Pieces]) -> Pieces:
    """The pieces of one text that was compared with several others: changed where any of them differs."""
    if len(texts) == 1:
        return texts[0]
    edges: dict[int, int] = {}
    for pieces in texts:
        at = 0
        for piece in pieces:
            start, at = at, at + len(piece.text)
            if piece.changed:
                edges[start] = edges.get(start, 0) + 1
                edges[at] = edges.get(at, 0) - 1
    whole = "".join(piece.text for piece in texts[0])
    found: Pieces = []
    position = depth = 0
    for edge in [*sorted(edges), len(whole)]:
        if edge > position:
            found.append(Piece(whole[position:edge], depth > 0))
        position, depth = edge, depth + edges.get(edge, 0)
    return found
