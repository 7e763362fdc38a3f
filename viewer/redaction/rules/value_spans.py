"""The span of a value that follows a name: in quotes, bare, in a call, or in an indented block."""

from typing import Literal, NamedTuple

from viewer.redaction.patterns import anchored, compiled

# The maximum number of bytes that are examined of a quoted and of a bare value.
MAX_VALUE, MAX_BARE = 8192, 300

Form = Literal["quoted", "bare", "block"]


class ValueSpan(NamedTuple):
    """The span of a value without its quotes, and its form."""

    start: int
    end: int
    form: Form


_QUOTE = anchored(r"(?:[rRbBuUfF]{1,2}+(?=[\\\"'`]))?+(\\*+)(\"\"\"|'''|[\"'`])")
# A YAML anchor or tag before the value.
_ANCHOR = anchored(r"[&!][A-Za-z_!][\w!\-]{0,40}+[ \t]++")
_CALL = anchored(r"(?:new )?+[A-Za-z_][A-Za-z_.]{0,60}+\(\s{0,20}+(?:[a-z_]{1,20}+=)?+(\\*+[\"'`])")
# Calls that read a value from elsewhere: their argument is a name.
_READS = compiled(
    r"(?i)(?:env|get|input|prompt|read|load|fetch|config|setting|vault|find|lookup|file|path|open|ask|param|column|field\()"
)
_SECRET_CALL = compiled(r"(?i)(?:secret|password|token)(?:str|bytes|string|value|text)?\(")
_WORD = r"[^\s\"'`\\,;&<>()\[\]{}|]"
_BARE = anchored(rf"(?:(?i:basic|bearer|token|apikey|bot)[ \t]++(?={_WORD}))?+{_WORD}++")
_REST = anchored(rf"{_WORD}++")
# Printable characters of ASCII, for texts that put no space after a value.
_ASCII = anchored(r"[!-~]++")
_BLOCK = anchored(r"[|>][+\-]?+\d?+[ \t]*+(?:#[^\n]{0,200}+)?+(?:\\n|\n)")
_BLOCK_LINE = anchored(r"[ \t]++[^\n\\]*+(?:\\n|\n|$)|[ \t]*+(?:\\n|\n)")


def value_at(data: bytes, at: int) -> ValueSpan | None:
    """Return the value that begins here; None if there is none."""
    first = data[at : at + 1]
    if first in (b"&", b"!") and (anchor := _ANCHOR.match(data, at, at + 80)):
        at = anchor.end()
    if quote := _QUOTE.match(data, at, at + MAX_VALUE):
        return quoted_at(data, quote.end(), quote[1] + quote[2]) or bare_at(data, quote.end())
    if first in (b"|", b">"):
        return _block_at(data, at)
    if first.isalpha() and (call := _CALL.match(data, at, at + 200)):
        name = data[at : call.start(1)]
        if _READS.search(name) and not _SECRET_CALL.search(name):
            return None
        return quoted_at(data, call.end(), call[1])
    return bare_at(data, at)


def quoted_at(data: bytes, start: int, quote: bytes) -> ValueSpan | None:
    """Return the text up to the closing quote, which is escaped like the opening one."""
    limit = min(len(data), start + MAX_VALUE)
    at = start
    while (end := data.find(quote, at, limit)) >= 0:
        slashes = 0
        while end - slashes > start and data[end - slashes - 1] == _BACKSLASH:
            slashes += 1
        if not slashes % 2:
            break
        at = end + 1
    if end < 0 or (len(quote) == 1 and data.find(b"\n", start, end) >= 0):
        return None
    return ValueSpan(start, end, "quoted")


_BACKSLASH = ord("\\")


def bare_at(data: bytes, at: int) -> ValueSpan | None:
    """Return the word that begins here, with a credential's scheme before it. A long word is cut."""
    found = _BARE.match(data, at, at + MAX_BARE)
    if found is None:
        return None
    end = at + len(found[0].rstrip(b".:*"))
    return ValueSpan(at, end, "bare") if end > at else None


def ascii_at(data: bytes, at: int) -> ValueSpan | None:
    """Return the characters of ASCII that begin here: in Chinese, the text goes on without a space."""
    found = _ASCII.match(data, at, at + MAX_BARE)
    if found is None:
        return None
    word = found[0]
    start = at + len(word) - len(word.lstrip(b"\"'`*(["))
    end = at + len(word.rstrip(b".,;:!?*\"'`)]"))
    return ValueSpan(start, end, "bare") if end > start else None


def complete_span(data: bytes, value: ValueSpan) -> tuple[int, int]:
    """Return the span of a value, including the rest of a long word."""
    is_cut = value.form == "bare" and value.end - value.start >= MAX_BARE - 3
    rest = _REST.match(data, value.end) if is_cut else None
    return value.start, rest.end() if rest else value.end


def _block_at(data: bytes, at: int) -> ValueSpan | None:
    """Return the indented lines of a YAML block scalar."""
    head = _BLOCK.match(data, at, at + 300)
    if head is None:
        return None
    start = end = head.end()
    while end - start < MAX_VALUE and (line := _BLOCK_LINE.match(data, end, end + MAX_VALUE)) and line[0]:
        end = line.end()
    lines = data[start:end]
    first = start + len(lines) - len(lines.lstrip(b" \t"))
    last = start + len(lines.removesuffix(b"\\n").rstrip())
    return ValueSpan(first, last, "block") if last > first else None
