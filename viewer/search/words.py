"""The words that a person searches for."""

import re
from dataclasses import dataclass

# Characters and words of a query that are searched for. The rest is ignored.
MAX_QUERY, MAX_WORDS = 300, 12
# The fewest letters of the beginning of a word. Fewer would match too many words.
MIN_PREFIX = 3
# An excluded word or phrase, a phrase in quotes, or a word.
_PART = re.compile(r'(-?)(?:"([^"]*)"?|([^\s"]+))')
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Words:
    """Words and phrases. ``all_of`` have to appear, ``none_of`` must not.

    ``prefix`` is the beginning of a word that has to appear; empty if there is none.
    """

    all_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()
    prefix: str = ""

    def __bool__(self) -> bool:
        """Whether there is anything to find. Excluded words alone find nothing."""
        return bool(self.all_of or self.prefix)


def words_in(query: str) -> Words:
    """The words of a query: ``-word`` excludes one, quotes hold a phrase, and the last word may go on.

    Everything else is text: no part of a query is an operator of the database.
    """
    all_of, none_of, prefix = list[str](), list[str](), ""
    text = query[:MAX_QUERY].replace("\0", " ").encode("utf-8", "replace").decode()
    found = [match.groups() for match in _PART.finditer(text)]
    for minus, phrase, word in found[:MAX_WORDS]:
        text = phrase if phrase is not None else word
        if not _WORD.search(text):
            continue
        (none_of if minus else all_of).append(text)
    if found and all_of and found[-1][2] == all_of[-1] and not found[-1][0] and len(all_of[-1]) >= MIN_PREFIX:
        prefix = all_of.pop()
    return Words(tuple(all_of), tuple(none_of), prefix)
