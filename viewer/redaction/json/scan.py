"""Scan a JSON text for every position at which redaction could change anything.

A checkpoint repeats its agents and events dozens of times. Decoding all of it, only to find that nothing is
secret, would take most of an import. So a few passes find the keywords without which no rule matches.
"""

from dataclasses import dataclass

from viewer.redaction.rules.keywords import KeywordSearch, keywords


@dataclass(slots=True)
class ScanResult:
    """Positions of keywords and of escapes, in order.

    ``has_deep_nesting`` if brackets close many levels at once.
    """

    positions: list[int]
    escapes: list[int]
    has_deep_nesting: bool


_ESCAPES = ["\\u0", "\\ud", "\\uD"]
_NESTS = ["}" * 8, "]" * 8, "}]" * 4, "]}" * 4]
_BACKSLASH, _U = b"\\u"
_SPECIAL = b"\\]}"
_QUOTE = ord('"')
_SEARCH = KeywordSearch([*keywords(), *_ESCAPES, *_NESTS])


def scan(data: bytes) -> ScanResult:
    """Return the positions in a JSON text at which redaction could change anything."""
    # A quote at which a keyword begins is not part of the text that it opens.
    positions = sorted(at + (data[at] == _QUOTE) for at in _SEARCH.positions(data))
    special = [at for at in positions if data[at] in _SPECIAL]
    escapes = [at for at in special if data[at] == _BACKSLASH and data[at + 1] == _U]
    nests = [at for at in special if data[at] != _BACKSLASH]
    if escapes or nests:
        dropped = {*escapes, *nests}
        positions = [at for at in positions if at not in dropped]
    return ScanResult(positions, escapes, has_deep_nesting=bool(nests))
