"""Values that stand behind a secret's name in a longer text: NAME=value, Name: value, "name": "value".

Names are found by the word in them that tells of a secret, and then read backwards to their beginning:
looked for as a whole, each letter of a long text would be tried as the first of one.
"""

import re
from collections.abc import Callable
from string import ascii_lowercase

from ahocorasick_rs import BytesAhoCorasick

from viewer.redaction.names import MARKER, Secrecy, is_secret_text, looks_random, secrecy_of


def _cased(*words: str) -> list[str]:
    """Each word in the three ways in which it is written: secret, Secret, SECRET."""
    return [way for word in words for way in (word, word.title(), word.upper())]


_TELLING = _cased(
    *("secret", "passwd", "password", "passphrase", "pwd", "token", "authorization", "cookie", "credential"),
    *("dsn", "bearer", "auth", "jwt"),
)
_KEY, _API = (f"(?:{'|'.join(_cased(word))})" for word in ("key", "api"))
_OWNERS = f"(?:{'|'.join(_cased('access', 'private'))})"
# The letters of a name that stand before that word, and behind it.
MOST_BEFORE = 40
_BEFORE = re.compile(r"[A-Za-z0-9_\-.]*")
_WORD = (
    rf"(?:{_API}[_\- ]?{_KEY}|{_OWNERS}[_\-]?{_KEY}|{'|'.join(_TELLING)}"
    rf"|(?:[_\-]|\b){_KEY}|[a-z]Key|[_\-](?:[Pp]ass|PASS|PAT)|[Cc]onnection_?[Ss]tring)"
    r"[A-Za-z0-9_\-]{0,40}+"
)
# What such a word can begin with: it is looked for nowhere else.
_BEGINNINGS = BytesAhoCorasick(
    [
        beginning.encode()
        for beginning in (
            *(*_TELLING, *_cased("key", "api", "access", "private"), "connection", "Connection"),
            *(f"{sign}{word}" for sign in "_-" for word in (*_cased("key", "pass"), "PAT")),
            *(f"{letter}Key" for letter in ascii_lowercase),
        )
    ]
)
# name="value", 'name': 'value', \"name\": \"value\" in a longer text: all but the value.
_QUOTED = re.compile(rf"(?P<word>{_WORD})\\*[\"']?[ \t\r\n]*[:=][ \t\r\n]*\\*(?P<quote>[\"'])")
_QUOTED_VALUES = {quote: re.compile(rf"[^{quote}\\\n]++(?=\\*{quote})") for quote in "\"'"}
# NAME=value and Name: value: all but the value.
_BARE = re.compile(rf"(?P<word>{_WORD})[\"']? ?(?P<sign>[:=]) ?")
_BARE_VALUE = re.compile(r"(?:(?i:basic|digest|bearer) +)?[^\s\"'\\,;&<>()\[\]{}]+")


def without_named_values(text: str) -> str:
    """The text without the values that stand behind secrets' names."""
    return _without(_without(text, _QUOTED, _end_of_quoted), _BARE, _end_of_bare)


def _without(text: str, names: re.Pattern[str], end_of: Callable[[re.Match[str], Secrecy], int]) -> str:
    """The text without what ``end_of`` gives an end for, behind any of the names."""
    parts: list[str] = []
    done = at = 0
    for start in _beginnings(text):
        if start < at or (found := names.match(text, start)) is None:
            continue
        secrecy = secrecy_of(_name(found, at))
        # Also where nothing is hidden: what stands there may be name and value once more.
        at = found.end()
        if secrecy and (end := end_of(found, secrecy)):
            parts += (text[done:at], MARKER)
            done = at = end
    return "".join((*parts, text[done:])) if parts else text


def _beginnings(text: str) -> list[int]:
    """Where a telling word may begin, in order."""
    # None of them has other letters, and each letter stays at its place.
    plain = text.encode("ascii", "replace")
    return sorted({start for _, start, _ in _BEGINNINGS.find_matches_as_indexes(plain, overlapping=True)})


def _name(found: re.Match[str], earliest: int) -> str:
    """The whole name that a word was found in."""
    start = found.start("word")
    before = _BEFORE.match(found.string[max(earliest, start - MOST_BEFORE) : start][::-1])
    assert before, "It fits an empty text."
    return before[0][::-1] + found["word"]


def _end_of_quoted(found: re.Match[str], secrecy: Secrecy) -> int:
    """Where the value ends that is to be hidden; 0 where none is."""
    value = _QUOTED_VALUES[found["quote"]].match(found.string, found.end())
    return value.end() if value and is_secret_text(value[0], secrecy) else 0


def _end_of_bare(found: re.Match[str], secrecy: Secrecy) -> int:
    """The same for a value without quotes, where prose may stand instead."""
    value = _BARE_VALUE.match(found.string, found.end())
    if value is None or (secrecy == "soft" and value[0].isdigit()) or not is_secret_text(value[0], secrecy):
        return 0
    # "Token: a unit of text" is prose, "TOKEN=abc" and "password: hunter2!" are not.
    is_assigned = found["sign"] == "=" and len(value[0]) >= 4
    return value.end() if is_assigned or looks_random(value[0]) else 0
