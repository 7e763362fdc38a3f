"""Patterns of secrets: what begins or ends one, shapes that need no name, and what may obscure them."""

import html
import math
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any
from urllib.parse import unquote_to_bytes

import re2
from ahocorasick_rs import BytesAhoCorasick, MatchKind

from viewer.redaction import MARKER, hidden

# Patterns over UTF-8 bytes, matched in linear time, and the spans that they find.
#
# ``compiled`` returns a pattern for RE2, which searches a whole text in linear time. ``anchored`` returns one
# for Python's ``re``, which matches at a given position in a tenth of the time. Its repetitions must be
# possessive, so that it never goes back.


# The first byte of a match, and the byte after it.
TextSpan = tuple[int, int]

_MARKER = MARKER.encode()
_OPTIONS = re2.Options()
# One byte is one character, so that positions are those of bytes, and a text need not be valid UTF-8.
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.log_errors = False


def compiled(pattern: str) -> Any:
    """Return a pattern for bytes. Its character classes are ASCII."""
    return re2.compile(pattern.encode(), _OPTIONS)


def anchored(pattern: str) -> re.Pattern[bytes]:
    """Return a pattern that is only matched at a given position. Write ``x*+`` instead of ``x*``."""
    return re.compile(pattern.encode())


def words_search(words: Iterable[str]) -> BytesAhoCorasick:
    """Return a search for all of these words in one pass."""
    encoded = sorted({word.encode("utf-8", "surrogateescape") for word in words})
    return BytesAhoCorasick(encoded, matchkind=MatchKind.LeftmostLongest)


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text that lists them, separated by spaces."""
    return tuple(text.split())


def merged(spans: Iterable[TextSpan]) -> list[TextSpan]:
    """Return the spans in order, overlapping ones merged."""
    result: list[TextSpan] = []
    for start, end in sorted(spans):
        if result and start < result[-1][1]:
            if end > result[-1][1]:
                result[-1] = (result[-1][0], end)
        elif start < end:
            result.append((start, end))
    return result


def without_spans(data: bytes, spans: Iterable[TextSpan]) -> bytes:
    """Return the text with the marker in place of these spans, which are in order and do not overlap."""
    parts: list[bytes] = []
    position = 0
    for start, end in spans:
        parts += (data[position:start], _MARKER)
        position = end
    hidden.add(len(parts) // 2)
    return b"".join((*parts, data[position:]))


# The form of a value: a placeholder, plain words, or random characters.


# Placeholders for secrets in documentation, schemas and code.
_PLACEHOLDER_WORDS = frozenset(
    words(
        "none null nil undefined true false yes no on off empty na n/a tbd todo unset unknown missing"
        " hidden masked redacted secret_here required optional string str text int bytes bool boolean"
        " number any object type secretstr password passwd token secret key apikey api_key username user"
        " value example sample dummy fake placeholder changeme change_me not_set notset not-needed"
        " not_needed no-key default enabled disabled str|none string|null str|null valid invalid expired"
        " ok pass user"
    )
)
_PLACEHOLDER = re2.compile(
    r"(?i)^(?:"
    r"\$\{?[a-z_][a-z0-9_.:\-]*\}?|\$\{\{.*\}\}|\{\{.*\}\}|\{[a-z_][a-z0-9_.]*\}|%\(?[a-z_][a-z0-9_]*[%)]s?"
    r"|<[^<>]{0,80}>|\[[a-z _\-]{0,40}\]"
    r"|[*•x.·#_\-?…]+|[a-z]{0,8}[_\-][*•x.…]{3,}|(?:sk-)?\.{3}"
    r"|(?:your|my|the|an?|some|enter|insert|add|put|paste|replace)[_\- ](?:[a-z]+[_\- ]){0,5}"
    r"(?:key|token|secret|password|passwd|credentials?|here|value|name)(?:[_\- ]here)?"
    r"|(?:os\.environ|os\.getenv|process\.env|env[.:(\[]|getenv|config[.\[]|settings\.|vault:"
    r"|ref\+|secretkeyref|!secret|arn:aws:secretsmanager).*"
    r")$"
)
_LONG_RUN, _LETTER = re2.compile(r"[A-Za-z0-9]{8,}"), re2.compile(r"[A-Za-z]")
_UUID = re2.compile(r"(?i)^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_WORDS = re2.compile(
    r"^(?:[a-z]+|[A-Z][a-z]*|[A-Z]+)(?:[ _\-/,.:;'\x{2019}&+]+(?:[a-z]+|[A-Z][a-z]*|[A-Z]+))*[.!?:;,]?$"
)
_PATH = re2.compile(
    r"^(?:~|\.{1,2})?/[\w.\-]+(?:/[\w.\- ]*)*$|^[A-Za-z]:\\|^(?:[\w\-]+/)+[\w\-]+\.[a-z]{1,5}$"
)
_URL = re2.compile(r"^[A-Za-z][A-Za-z0-9+.\-]{0,20}://")
_MOMENT = re2.compile(
    r"^\d{1,4}[-/.:]\d{1,2}[-/.:]\d{1,4}(?:[T ][\d:.Z+\-]*)?$|^v?\d+(?:\.\d+)+[\w.\-]*$"
    r"|^\d+(?:\.\d+)?(?:%|[a-zA-Z]{1,3})?$"
)
# Words joined by punctuation, with at most a short number: gpt-4o-mini, task_key_12, text-embedding-3-small.
_NAME = re2.compile(
    r"^(?:[a-z]+|[A-Z]+|[A-Z][a-z]+|\d{1,4}|[a-z]\d|\d[a-z])"
    r"(?:[_\-./: ](?:[a-z]+|[A-Z]+|[A-Z][a-z]+|v?\d{1,4}|[a-z]\d|\d[a-z]))*$"
)
# C# minor, Bb; Alt+Shift+1, Ctrl-C, F5.
_MUSICAL_KEY = re2.compile(
    r"^[A-H](?:#|b|\x{266d}|\x{266f}| ?(?:sharp|flat))?[ \-]?(?i:m|maj|min|major|minor|dur|moll)?[0-9]{0,2}$"
)
_KEYSTROKE = re2.compile(
    r"(?i)^(?:(?:ctrl|control|cmd|command|alt|option|opt|shift|meta|super|win|fn|esc|tab|enter|return|space"
    r"|backspace|delete|del|insert|home|end|pgup|pgdn|pageup|pagedown|page ?up|page ?down|up|down|left|right"
    r"|arrow|key|f\d{1,2}|num\d?|[a-z0-9]|[^a-z0-9\s])[ ]?[+\-]?[ ]?){1,6}$"
)
_KEYSTROKE_START = re2.compile(
    r"(?i)^(?:ctrl|control|cmd|command|alt|option|opt|shift|meta|super|win|fn|f\d)"
)
# A number with its unit: 200g, 12min.
_QUANTITY = re2.compile(r"^[~<>]?\d+(?:[.,/]\d+)?(?:[a-zA-Z]{1,5}|%)?$")
# Any of these, in one search.
_ORDINARY = re2.compile(
    "|".join(f"(?:{shape.pattern})" for shape in (_WORDS, _NAME, _PATH, _MOMENT, _UUID, _QUANTITY))
)
# Characters of keys; code and prose have others.
_KEY_CHARACTERS = re2.compile(r"^[A-Za-z0-9_\-+/=.:~!@#$%^&*|]+$")
_DIGITS, _BLANKS = frozenset("0123456789"), frozenset(" \t\r\n\f\v")
_UPPER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LETTERS = _UPPER | frozenset("abcdefghijklmnopqrstuvwxyz")
_SYMBOLS = frozenset("!@#$%^&*+=~?")
# A longer text is not a placeholder, name or path.
_MAX_LENGTH = 200


@lru_cache(maxsize=4096)
def _is_placeholder(text: str) -> bool:
    plain = text.strip().strip("\"'`").lower()
    if not plain or plain in _PLACEHOLDER_WORDS or MARKER in text:
        return True
    if _PLACEHOLDER.search(plain) is None:
        return False
    # A password may begin with a dollar sign, or be in brackets.
    return not any(_LETTER.search(run[0]) and has_digit(run[0]) for run in _LONG_RUN.finditer(text))


def is_placeholder(text: str) -> bool:
    """Return whether a text is a placeholder: None, ${VAR}, <your key>, ****."""
    return len(text) <= _MAX_LENGTH and _is_placeholder(text)


def is_words(text: str) -> bool:
    """Return whether a text consists of plain words."""
    return len(text) <= _MAX_LENGTH and _WORDS.search(text) is not None


def is_path(text: str) -> bool:
    """Return whether a text is the path of a file or folder."""
    return len(text) <= _MAX_LENGTH and _PATH.search(text) is not None


def is_ordinary(text: str) -> bool:
    """Return whether a text has the form of words, a name, path, date, version, UUID or plain URL."""
    if len(text) > _MAX_LENGTH:
        return False
    if _ORDINARY.search(text) is not None or is_keyboard_or_musical(text):
        return True
    return _URL.search(text) is not None and "@" not in text


def is_keyboard_or_musical(text: str) -> bool:
    """Return whether a text names keys of a keyboard, or a key of music."""
    if len(text) > 40:
        return False
    return _MUSICAL_KEY.search(text) is not None or (
        _KEYSTROKE_START.search(text) is not None and _KEYSTROKE.search(text) is not None
    )


def is_prose(text: str) -> bool:
    """Return whether a text has four or more words, none of which mixes letters and digits like a key."""
    found = text[:2000].split()
    return len(found) >= 4 and not any(
        len(word) >= 8 and is_mixed(word) and not is_ordinary(word.strip(".,;:()")) for word in found
    )


def is_made_up(text: str) -> bool:
    """Return whether a text has eight or more letters and digits, like a short key but no name or code."""
    if len(text) < 8 or not has_digit(text) or not _KEY_CHARACTERS.search(text[:_MAX_LENGTH]):
        return False
    return not _LETTERS.isdisjoint(text) and not is_ordinary(text) and not _is_identifier(text)


# Ids of runs and threads: hexadecimal digits, or a time and hexadecimal digits.
_IDENTIFIER = re2.compile(
    r"(?i)^(?:[a-z]{1,12}[_\-])?(?:\d{8}[T_\-]?\d{6}[_\-])?[0-9a-f\-]{1,36}$|^[0-9A-HJKMNP-TV-Z]{26}$"
)


def _is_identifier(text: str) -> bool:
    return _IDENTIFIER.search(text) is not None


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID."""
    return _UUID.search(text) is not None


def is_url(text: str) -> bool:
    """Return whether a text begins with the scheme of a URL."""
    return _URL.search(text[:40]) is not None


def has_secret_path(url: str) -> bool:
    """Return whether a URL has a part below its host that looks like a key."""
    parts = url[:2000].translate(_SEPARATORS).split("/")[3:]
    return any(len(part) >= 6 and is_mixed(part) and not is_ordinary(part) for part in parts)


_SEPARATORS = str.maketrans("?&=#", "////")


def looks_random(text: str) -> bool:
    """Return whether a text has eight or more characters of several kinds, unlike a word or a number."""
    return len(text) >= 8 and not text.isalpha() and not text.isdigit() and not text.isspace()


def has_known_format(text: str) -> bool:
    """Return whether a text has the form of a date, version, UUID, path or URL without a login."""
    shapes = (_MOMENT, _UUID, _PATH)
    return any(shape.search(text[:_MAX_LENGTH]) for shape in shapes) or (
        _URL.search(text[:_MAX_LENGTH]) is not None and "@" not in text
    )


def is_distinctive(text: str) -> bool:
    """Return whether other texts can be searched for a secret: not a word, path or URL without a login."""
    return (
        looks_random(text) and not is_path(text) and not (_URL.search(text[:_MAX_LENGTH]) and "@" not in text)
    )


def has_digit(text: str) -> bool:
    """Return whether a text contains a digit."""
    return not _DIGITS.isdisjoint(text)


def has_upper(text: str) -> bool:
    """Return whether a text contains a capital letter."""
    return not _UPPER.isdisjoint(text)


def is_mixed(text: str) -> bool:
    """Return whether a text mixes letters with digits or symbols, as in hunter2 or p@ssword."""
    if _LETTERS.isdisjoint(text) and text.isascii():
        return False
    return has_digit(text) or not _SYMBOLS.isdisjoint(text.rstrip("!?*:"))


def entropy(text: str) -> float:
    """Return the Shannon entropy of a text's characters, in bits per character."""
    counts = Counter(text)
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values())


def is_machine_made(text: str) -> bool:
    """Return whether a text has 16 or more random characters, like a key but no name, path, UUID or date."""
    if len(text) < 16 or not _BLANKS.isdisjoint(text) or not looks_random(text):
        return False
    return has_digit(text) and not is_ordinary(text) and entropy(text[:_MAX_LENGTH]) >= 3


# Texts without what may be inside a secret: colours, zero-width characters, line breaks, percent signs.
#
# Terminals print colours and wrap lines, pages hide characters without a width, and URLs are
# percent-encoded. A ``PlainText`` lacks that, and maps the spans that are found in it to the original.


# Characters without a width: the soft hyphen, joiners, direction marks, variation selectors and others.
_RANGES = (range(0x200B, 0x2010), range(0x202A, 0x202F), range(0x2060, 0x2070), range(0xFE00, 0xFE10))
_CODES = (0xAD, 0x34F, 0x61C, 0x180E, 0xFEFF, *(code for codes in _RANGES for code in codes))
INVISIBLE = tuple(map(chr, _CODES))
_INVISIBLE_TABLE = dict.fromkeys(_CODES)
# The escape character of terminals, also as JSON and programming languages write it.
_ESCAPE = r"(?:\x1b|\\+(?:u001[bB]|x1[bB]|033|e))"
_ESCAPED_CODES = "|".join(f"{code:04x}|{code:04X}" for code in _CODES)
_INVISIBLE = compiled(
    rf"{_ESCAPE}(?:\[[0-9;:?]{{0,40}}[ -/]?[@-~]"
    rf"|\][^\x07\x1b\\]{{0,300}}(?:\x07|\\+u0007|{_ESCAPE}\\{{0,4}}))"
    rf"|{'|'.join(INVISIBLE)}|\\+u(?:{_ESCAPED_CODES})"
)
# Letters of Cyrillic and Greek that look like one of ASCII. They obscure a name next to letters of ASCII, or
# as a whole.
LOOK_ALIKES = dict(
    zip(
        "асеіјорѕхуԁһԛԝктгпӏАВСЕНІЈКМОРЅТХУԜαορνικτυεΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
        "aceijopsxydhqwktrnlABCEHIJKMOPSTXYWaopviktueABEZHIKMNOPTYX",
        strict=True,
    )
)
# Letters of wide and mathematical fonts and in circles, as ``_ENCODED`` matches them.
_FONTS = map(chr, (*range(0xFF0D, 0xFF5B), *range(0x1D400, 0x1D800), *range(0x249C, 0x24EA)))
_PLAIN_LETTERS = str.maketrans(
    {letter: unicodedata.normalize("NFKC", letter) for letter in _FONTS} | LOOK_ALIKES
)
_ALIKE = f"(?:{'|'.join(LOOK_ALIKES)})+"
# What names have of which a part of the letters are look-alikes: one next to a letter of ASCII.
_OBSCURED_WORDS = words("password passwd passphrase secret token api_key apikey auth credential cookie pwd")
_CYRILLIC, _GREEK = range(0x400, 0x530), range(0x370, 0x400)


def _look_alikes_in(word: str) -> Iterator[str]:
    for first, second in pairwise(word):
        yield from (alike + second for alike, plain in LOOK_ALIKES.items() if plain == first)
        yield from (first + alike for alike, plain in LOOK_ALIKES.items() if plain == second)


_OBSCURED_LETTERS = frozenset(
    pair
    for word in _OBSCURED_WORDS
    for form in (word, word.capitalize(), word.upper())
    for pair in _look_alikes_in(form)
)


def _in_look_alikes(word: str, script: range) -> str:
    """Return a word in look-alikes of one script; empty if that lacks a letter."""
    letters = {plain: alike for alike, plain in LOOK_ALIKES.items() if ord(alike) in script} | {"_": "_"}
    return "".join(letters[one] for one in word) if letters.keys() >= {*word} else ""


# Names all of whose letters are look-alikes.
_OBSCURED_NAMES = tuple(
    name
    for word in (*_OBSCURED_WORDS, "key", "passcode")
    for form in (word, word.capitalize(), word.upper())
    for script in (_CYRILLIC, _GREEK)
    if (name := _in_look_alikes(form, script))
)
# A character as a URL or HTML has it, letters of a wide or mathematical font or in circles, and look-alikes.
_ENCODED = compiled(
    r"%[0-9A-Fa-f]{2}|&(?:quot|apos|amp|lt|gt|#[0-9]{2,4}|#[xX][0-9A-Fa-f]{2,4});"
    r"|(?:\xef\xbc[\x8d\x90-\x99\xa1-\xba\xbf]|\xef\xbd[\x81-\x9a]"
    r"|\xf0\x9d[\x90-\x9f][\x80-\xbf]|\xe2\x92[\x9c-\xbf]|\xe2\x93[\x80-\xa9])+"
    rf"|[A-Za-z_]{_ALIKE}|{_ALIKE}[A-Za-z_]|{'|'.join(sorted(_OBSCURED_NAMES, reverse=True))}"
)
# What is encoded in a query that contains a name or an address: = : " @
# And the starts of entities and of wide letters.
_WIDE = (
    *(chr(code) for code in (*range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))),
    *(one.decode("utf-8", "surrogateescape") for one in (b"\xf0\x9d", b"\xe2\x92", b"\xe2\x93")),
    *("\\ud835", "\\uD835", "\\u24"),
)
_ENTITIES = ("&quot;", "&apos;", "&#", "&amp;#", "&amp;quot;")
_ENCODED_SIGNS = (
    "%3D",
    "%3d",
    "%3A",
    "%3a",
    "%22",
    "%40",
    "%253",
    *_ENTITIES,
    *_WIDE,
    *_OBSCURED_LETTERS,
    *_OBSCURED_NAMES,
)
# Variation selectors and the mark at the start of a file begin with two bytes that no other text has.
INVISIBLE_KEYWORDS = (
    *(one for one in INVISIBLE if not 0xFE00 <= ord(one) < 0xFE10),
    b"\xef\xb8".decode("utf-8", "surrogateescape"),
    *("\x1b[", "\x1b]", "\\u001b", "\\u001B", "\\x1b", "\\x1B", "\\033", "\\e["),
    *(
        "\\u00ad",
        "\\u00AD",
        "\\u034",
        "\\u061",
        "\\u180",
        "\\u200",
        "\\u202",
        "\\u206",
        "\\ufe",
        "\\uFE",
        "\\uff",
        "\\uFF",
    ),
)
# Keywords of obscured secrets, as ``rules.keywords`` has them of plain ones.
OBSCURED_KEYWORDS = (*INVISIBLE_KEYWORDS, *_ENCODED_SIGNS)
_INVISIBLE_SEARCH, _ENCODED_SEARCH = words_search(INVISIBLE_KEYWORDS), words_search(_ENCODED_SIGNS)
MAX_DECODINGS = 3

# Lines are wrapped at this width or a greater one.
_MIN_WIDTH = 40
# The vertical lines of boxes, also as JSON escapes them.
_BORDER = "(?:\u2502|\u2503|\u2551|\\\\+u(?:250[23]|2551)|\\|)"
_BREAK = rf"[ \t]{{0,200}}{_BORDER}?[ \t]{{0,40}}(?:\r?\n|\\+r\\+n|\\+n)[ \t]{{0,40}}{_BORDER}?[ \t]{{0,200}}"
_ANY_BREAK = compiled(rf"(?:=|\\)?{_BREAK}")
# A long word that may go on in the next line: of a box, of a wrapped line, or after a sign for that.
_WRAPPED = compiled(rf"[A-Za-z0-9_\-+/=.]{{8,300}}?((?:=|\\)?{_BREAK})([A-Za-z0-9_\-+/=.]{{3,300}})")
# A wide line, or a sign or border at the end of one. Most texts of short lines have neither.
_MAY_WRAP = compiled(rf"[^\r\n]{{{_MIN_WIDTH}}}\r?\n|[=\\]\r?\n|{_BORDER}[ \t]{{0,40}}\r?\n|\\n")
_TO_DIGIT = anchored(r"[^0-9]*+[0-9]")


class PlainText:
    """A text without some parts of the original.

    ``starts`` are the positions of its pieces, ``origins`` their positions and lengths in the original. A
    piece with another length than its original was decoded.
    """

    def __init__(self, original: bytes, parts: Iterator[tuple[int, int, bytes]]) -> None:
        """Replace parts of a text: their start, end and replacement, in order."""
        pieces: list[bytes] = []
        self.starts: list[int] = []
        self.origins: list[tuple[int, int]] = []
        self._size = at = 0
        for start, end, replacement in parts:
            self._add(pieces, original[at:start], at, start - at)
            self._add(pieces, replacement, start, end - start)
            at = end
        self._add(pieces, original[at:], at, len(original) - at)
        self.data = b"".join(pieces)

    def _add(self, pieces: list[bytes], piece: bytes, origin: int, length: int) -> None:
        if piece:
            self.starts.append(self._size)
            self.origins.append((origin, length))
            pieces.append(piece)
            self._size += len(piece)

    def original(self, span: TextSpan) -> TextSpan:
        """Return the span in the original of a span in this text that is not empty."""
        first, last = bisect_right(self.starts, span[0]) - 1, bisect_right(self.starts, span[1] - 1) - 1
        (origin, length), (end_origin, end_length) = self.origins[first], self.origins[last]
        is_copied = self._length_of(first) == length
        start = origin + (span[0] - self.starts[first] if is_copied else 0)
        is_copied = self._length_of(last) == end_length
        return start, end_origin + (span[1] - self.starts[last] if is_copied else end_length)

    def _length_of(self, piece: int) -> int:
        return (self.starts[piece + 1] if piece + 1 < len(self.starts) else self._size) - self.starts[piece]


def without_invisible(name: str) -> str:
    """Return a name without characters that have no width."""
    return name if name.isascii() else name.translate(_INVISIBLE_TABLE)


def plain_letters(text: str) -> str:
    """Return a text with letters of ASCII instead of those that look like them."""
    return text.translate(_PLAIN_LETTERS)


def obscured_spans(data: bytes, find: Callable[[bytes], list[TextSpan]]) -> list[TextSpan]:
    """Return the spans that ``find`` returns once whatever may interrupt a secret is removed."""
    found: list[TextSpan] = []
    steps: list[PlainText] = []

    def search(step: PlainText) -> None:
        steps.append(step)
        found.extend(_original(span, steps) for span in find(step.data))

    text = data
    if _INVISIBLE_SEARCH.find_matches_as_indexes(text):
        search(visible_text(text))
        text = steps[-1].data
    for _ in range(MAX_DECODINGS):
        if not _ENCODED_SEARCH.find_matches_as_indexes(text):
            break
        search(PlainText(text, _decoded(text)))
        text = steps[-1].data
    if breaks := _wrapped_words(text):
        joined = PlainText(text, iter(breaks))
        joins = joined.starts[1:]
        # Other spans are found in the text as it is.
        spans = [
            span
            for span in find(joined.data)
            if bisect_right(joins, span[0]) < bisect_right(joins, span[1] - 1)
        ]
        found += [_original(span, [*steps, joined]) for span in spans]
    return found


def _original(span: TextSpan, steps: list[PlainText]) -> TextSpan:
    """Return the span in the original of a span in the text after these steps."""
    for step in reversed(steps):
        span = step.original(span)
    return span


def visible_text(data: bytes) -> PlainText:
    """Return a text without colours and characters that have no width."""
    return PlainText(data, ((*found.span(), b"") for found in _INVISIBLE.finditer(data)))


def is_obscured(data: bytes) -> bool:
    """Return whether a text has colours, characters without a width, or line breaks."""
    has_invisible: object = _INVISIBLE_SEARCH.find_matches_as_indexes(data)
    return b"\n" in data or b"\\n" in data or bool(has_invisible)


def one_line(data: bytes, separator: bytes) -> PlainText:
    """Return a text with a separator instead of each line break and the borders of boxes around it."""
    return PlainText(data, ((*found.span(), separator) for found in _ANY_BREAK.finditer(data)))


def _decoded(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    for found in _ENCODED.finditer(data):
        text = found[0]
        if text.startswith(b"%"):
            plain = unquote_to_bytes(text)
        elif text.startswith(b"&"):
            plain = html.unescape(text.decode()).encode("utf-8", "surrogatepass")
        else:
            plain = plain_letters(text.decode()).encode()
        yield (*found.span(), plain)


def _wrapped_words(data: bytes) -> list[tuple[int, int, bytes]]:
    """Return the line breaks inside long words that are not words of prose."""
    if not _MAY_WRAP.search(data):
        return []
    return [(*found.span(1), b"") for found in _WRAPPED.finditer(data) if _is_wrapped(data, found)]


def _is_wrapped(data: bytes, found: Any) -> bool:
    start, end = found.span(1)
    first, last = found.span()
    line_break, after = data[start:end], data[end:last]
    if after.isalpha() and (after.islower() or after.istitle()):
        return False
    is_marked = line_break[:1] in (b"=", b"\\") and line_break[1:2] in (b"\r", b"\n")
    is_in_box = (
        b"\xe2\x94" in line_break or b"\xe2\x95" in line_break or b"u25" in line_break or b"|" in line_break
    )
    if not is_marked and not is_in_box:
        line = data.rfind(b"\n", max(0, start - 400), start) + 1
        next_line = data.find(b"\n", last, last + 400)
        width = start - line
        if width < _MIN_WIDTH or (len(data) if next_line < 0 else next_line) - end > width:
            return False
    return _TO_DIGIT.match(data[first:start] + after) is not None
