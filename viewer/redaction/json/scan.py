"""One fast look through a JSON text: every place at which ``redaction`` could change anything.

A checkpoint repeats its agents and events dozens of times, so decoding all of it just to find that
nothing is secret would cost most of an import. What is looked for are the signs of ``signs``: no rule
can hold where none is.
"""

from dataclasses import dataclass

from viewer.redaction.rules.keywords import searches, signs


@dataclass(slots=True)
class Findings:
    """Positions in a text, in order. ``nests`` tells of brackets that close many levels at once."""

    places: list[int]
    escapes: list[int]
    nests: bool


_ESCAPES = ["\\u0", "\\ud", "\\uD"]
_NESTS = ["}" * 8, "]" * 8, "}]" * 4, "]}" * 4]
_BACKSLASH, _U = b"\\u"
_SPECIAL = b"\\]}"
_SEARCHES = searches([*signs(), *_ESCAPES, *_NESTS])


def scan(data: bytes) -> Findings:
    """Every place of a JSON text that needs a closer look."""
    places: list[int] = []
    for search in _SEARCHES:
        places += [start for _, start, _ in search.find_matches_as_indexes(data)]
    places.sort()
    special = [at for at in places if data[at] in _SPECIAL]
    escapes = [at for at in special if data[at] == _BACKSLASH and data[at + 1] == _U]
    nests = [at for at in special if data[at] != _BACKSLASH]
    if escapes or nests:
        dropped = {*escapes, *nests}
        places = [at for at in places if at not in dropped]
    return Findings(places, escapes, nests=bool(nests))
