"""Values that follow a secret's name in a longer text: NAME=value, "name": "value", --name value.

Names are found by the word that makes them the name of a secret, in one pass over the text.
"""

from collections.abc import Iterator
from typing import NamedTuple

from viewer.redaction.names.secrecy import Secrecy, is_secret_text, secrecy_of
from viewer.redaction.names.shapes import (
    has_digit,
    has_known_format,
    is_machine_made,
    is_mixed,
    is_ordinary,
    is_placeholder,
    is_words,
    looks_random,
)
from viewer.redaction.patterns import TextSpan, compiled, words_search
from viewer.redaction.rules.value_spans import MAX_VALUE, ValueSpan, bare_at, complete_span, value_at

# Words in the names of secrets, in lower case. The longest that matches counts.
SECRET_WORDS = (
    *("secret", "passwd", "password", "passwort", "kennwort", "passphrase", "passcode", "pwd"),
    *("token", "authorization", "cookie", "credential", "creds", "dsn", "bearer", "auth"),
    *("jwt", "otp", "sessionid", "sessid", "mnemonic", "_pat", "key", "api key", "access key"),
    *("private key", "secret key", "connection string", "connectionstring", "connection_string"),
    *("seed phrase", "seed_phrase", "recovery phrase", "session key", "_pass", "mfa_code"),
    *("2fa_code", "verification code", "verification_code", "backup code", "backup_code"),
    *("recovery_code", "pin_code", "webhook_url", "session_cookie", "headers", "accountsignature"),
    *("-pass", "signing key"),
)
_SEARCH = words_search(SECRET_WORDS)
_NAME_CHARACTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.$")
MAX_BEFORE, MAX_AFTER = 60, 40

_CLOSE = compiled(r"[\\\"'`*_\])]*")
_ASSIGNS = compiled(r"\s{0,40}(?::=|=>|->|=|:|\xe2\x86\x92)[*_`]{0,3}[ \t]{0,80}")
_ANNOTATION = compiled(
    r"(?:Optional\[|Final\[)?(?:str|string|String|SecretStr|bytes|char\s?\*|&str|&'static str)\]?"
    r"(?:\s?\|\s?(?:None|null|undefined))?\s{0,8}=\s{0,40}"
)
_NEXT_LINE = compiled(r"(?:\\n|\r?\n)[ \t]{1,40}")
_PROSE = compiled(
    r"(?i)[\s:]{1,3}(?:is|was|to|equals|set to|changed to|will be|be)(?: now| set to)?:?\s{1,3}[*_]{0,3}"
)
_CELL = compiled(r"[ \t]{0,80}\|[ \t]{0,80}")
_COMMA = compiled(r"\s{0,4},\s{0,40}(?:[a-z_]{1,20}=)?")
_BLANKS = compiled(r"[ \t]{1,80}(?:\\\r?\n\s{0,20})?")
_TAG_END = compiled(r"(?:\s[^<>]{0,300})?>(?:<!\[CDATA\[)?\s{0,40}")
_TAG_TEXT = compiled(r"([^<>]+)(?:\]\]>)?</")
_LINE = compiled(r"[^\r\n']+")
_ENV_LINE_START = compiled(
    r"(?:^|\n|\\n)[ \t]*(?:export |set |setx |ENV |ARG |-e |--env |\$env:|\+ ?|declare -x )?$"
)
_WORD = compiled(r"\S+")
_LONG_SCHEMES = compiled(r"(?i)(?:digest|aws4-hmac-sha256|negotiate|oauth|hawk|signature|ntlm)[ \t]")
_CODE_VALUE = compiled(r"^[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)*$")


class Name(NamedTuple):
    """A name in a text, and its secrecy."""

    start: int
    end: int
    text: str
    secrecy: Secrecy


def named_spans(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of the values that follow secrets' names."""
    after = 0
    for _number, start, end in _SEARCH.find_matches_as_indexes(data.lower()):
        if start < after:
            continue
        name = _name_at(data, start, end, after)
        after = name.end
        if not name.secrecy:
            continue
        span = _value_of(data, name)
        if span is not None:
            yield span
            after = span[1]


def _name_at(data: bytes, start: int, end: int, earliest: int) -> Name:
    first, last = max(earliest, start - MAX_BEFORE), min(len(data), end + MAX_AFTER)
    while start > first and data[start - 1] in _NAME_CHARACTERS:
        start -= 1
    # In JSON inside JSON, the letter after a backslash is not part of the name.
    if data[start - 1 : start] == b"\\" and data[start : start + 1] in (b"n", b"t", b"r"):
        start += 1
    while end < last and data[end] in _NAME_CHARACTERS and data[end] != 46:
        end += 1
    text = data[start:end].decode("latin-1").lstrip("-.$").replace(" ", "_")
    return Name(start, end, text, secrecy_of(text.rpartition(".")[2] or text))


def _value_of(data: bytes, name: Name) -> TextSpan | None:
    """Return the span of the value after a name, or None if that is not a secret."""
    close = _CLOSE.match(data, name.end)
    at = close.end()
    if data[name.start - 1 : name.start] in (b"<", b":") and (tag := _TAG_END.match(data, name.end)):
        return _tag_text(data, tag.end(), name)
    if assigns := _ASSIGNS.match(data, at):
        return _assigned(data, name, assigns.end(), assigns[0].strip(b" \t\r\n*_`"))
    if (cell := _CELL.match(data, at)) and name.secrecy != "random":
        return _shaped(data, name, cell.end(), 6)
    quotes = close[0].strip(b"\\*_])")
    if quotes and (comma := _COMMA.match(data, at)):
        return _in_list(data, name, comma.end())
    if data[name.start : name.start + 2] == b"--" or _follows_command(data, name):
        blanks = _BLANKS.match(data, at)
        return _flag(data, name, blanks.end()) if blanks else None
    if prose := _PROSE.match(data, at):
        return _shaped(data, name, prose.end(), 6)
    if blanks := _BLANKS.match(data, at):
        return _next_word(data, name, blanks.end())
    return None


def _next_word(data: bytes, name: Name, at: int) -> TextSpan | None:
    """Return the span of the word after a name, as in “password hunter2”, if it looks like a secret."""
    value = value_at(data, at)
    if value is None or name.secrecy == "random":
        return None
    text = data[value.start : value.end].decode("utf-8", "replace").rstrip(".,")
    if not is_secret_text(text, name.secrecy) or has_known_format(text) or " " in text:
        return None
    is_password = name.secrecy == "hard" and len(text) >= 6 and has_digit(text) and not is_ordinary(text)
    is_quoted_key = value.form == "quoted" and len(text) >= 16 and is_mixed(text) and not is_ordinary(text)
    return complete_span(data, value) if is_password or is_quoted_key or is_machine_made(text) else None


_SETS = compiled(r"(?i)(?:\bsetx|\bset -[a-zA-Z]{1,3}) $")


def _follows_command(data: bytes, name: Name) -> bool:
    if _SETS.search(data[max(0, name.start - 12) : name.start]):
        return True
    if name.text.lower() not in ("password", "passwd"):
        return False
    before = data[max(0, name.start - 300) : name.start].lower()
    return b"login" in before or b"machine" in before or b"user " in before


def _assigned(data: bytes, name: Name, at: int, sign: bytes) -> TextSpan | None:
    """Return the span of a secret after a colon or an equals sign."""
    if sign == b"=" and data[at : at + 1] == b"=":
        return _shaped(data, name, at + len(data[at : at + 20]) - len(data[at : at + 20].lstrip(b"= ")), 8)
    if annotation := _ANNOTATION.match(data, at):
        at, sign = annotation.end(), b"="
    if next_line := _NEXT_LINE.match(data, at, at + MAX_VALUE):
        return _shaped(data, name, next_line.end(), 6)
    lowered = name.text.lower()
    if ("cookie" in lowered or "authorization" in lowered) and (span := _rest_of_line(data, at, lowered)):
        return span
    if _is_env_line(data, name) and sign == b"=" and data[at : at + 1] not in b"\"'`$" and data[at - 1] == 61:
        word = _WORD.match(data, at, at + MAX_VALUE)
        if word and is_secret_text(word[0].decode("utf-8", "replace"), name.secrecy):
            value = ValueSpan(at, word.end(), "quoted") if _is_bare_secret(word[0], name, "=") else None
            return (
                (value.start, value.end)
                if value and b"(" not in word[0]
                else _secret_value(data, name, bare_at(data, at), "=")
            )
    return _secret_value(data, name, value_at(data, at), sign.decode("latin-1"))


def _rest_of_line(data: bytes, at: int, name: str) -> TextSpan | None:
    """Return the span of the rest of a line with cookies, or with a scheme that has many parts."""
    while data[at : at + 1] in (b'"', b"'", b"\\"):
        at += 1
    if "cookie" in name and b"=" not in data[at : at + 80]:
        return None
    if "cookie" not in name and not _LONG_SCHEMES.match(data, at):
        return None
    line = _LINE.match(data, at, at + MAX_VALUE)
    if line is None:
        return None
    text = line[0].partition(b'"' if "cookie" in name else b"\\n")[0].partition(b"\\n")[0].rstrip(b' \t"\\')
    return (at, at + len(text)) if text and b"[redacted]" not in text else None


def _is_env_line(data: bytes, name: Name) -> bool:
    if name.text.upper() != name.text:
        return False
    return _ENV_LINE_START.search(data[max(0, name.start - 24) : name.start]) is not None


def _secret_value(data: bytes, name: Name, value: ValueSpan | None, sign: str) -> TextSpan | None:
    if value is None:
        return None
    raw = data[value.start : value.end]
    text = raw.decode("utf-8", "replace")
    if not is_secret_text(text, name.secrecy):
        return None
    if value.form == "bare":
        if data[value.end : value.end + 1] in (b"(", b"["):
            return None
        if not _is_bare_secret(raw, name, "=" if sign == "=" else ":", data[value.end : value.end + 1]):
            return None
    elif (value.form == "block" and is_words(text)) or (
        is_words(text) and (" " in text.strip() or name.secrecy != "hard") and len(text) < 8
    ):
        return None
    return complete_span(data, value)


def _is_bare_secret(raw: bytes, name: Name, sign: str, following: bytes = b"") -> bool:
    """Return whether a value without quotes is a secret, and not code or prose."""
    text = raw.decode("utf-8", "replace")
    if name.secrecy == "hard" and text.isdigit():
        return len(text) >= 4
    if text.isdigit() or len(text) < 4:
        return False
    _scheme, blank, credential = text.partition(" ")
    if blank and is_placeholder(credential):
        return False
    is_code = _CODE_VALUE.search(raw) is not None and not is_machine_made(text)
    if sign == "=" and is_code:
        is_setting = name.text.upper() == name.text or following in (b";", b"&")
        if "." in text and not is_mixed(text):
            return False
        return is_setting or (is_mixed(text) and (name.secrecy == "hard" or not is_ordinary(text)))
    if sign == "=":
        return True
    return _looks_secret(text, name)


def _looks_secret(text: str, name: Name) -> bool:
    """Return whether a text that may be prose is a secret: mixed characters, and not an ordinary name."""
    if len(text) < 5 or is_words(text):
        return False
    if name.secrecy == "hard":
        return is_mixed(text) and not has_known_format(text)
    return looks_random(text) and not is_ordinary(text) and is_mixed(text)


def _shaped(data: bytes, name: Name, at: int, least: int) -> TextSpan | None:
    """Return the span of a value that counts as a secret only by its form, as any text may follow here."""
    value = value_at(data, at)
    if value is None:
        return None
    text = data[value.start : value.end].decode("utf-8", "replace")
    if len(text) < least or " " in text.strip() or not is_secret_text(text, name.secrecy):
        return None
    return complete_span(data, value) if _looks_secret(text, name) else None


def _in_list(data: bytes, name: Name, at: int) -> TextSpan | None:
    """Return the span of a secret after a quoted name and a comma. It may also be the next name of a list."""
    if data[at : at + 1].isalnum():
        return None
    return _shaped(data, name, at, 8)


def _flag(data: bytes, name: Name, at: int) -> TextSpan | None:
    """Return the span of a secret after a command's flag."""
    if data[at : at + 1] in (b"-", b"$", b"|", b">", b"<", b"["):
        return None
    value = value_at(data, at)
    if value is None:
        return None
    text = data[value.start : value.end].decode("utf-8", "replace")
    if not is_secret_text(text, name.secrecy) or is_words(text) or len(text) < 4:
        return None
    is_plain = text.isdigit() and name.secrecy != "hard"
    return None if is_plain or text.startswith(("/", "./", "~")) else complete_span(data, value)


def _tag_text(data: bytes, at: int, name: Name) -> TextSpan | None:
    """Return the span of a secret in an XML element."""
    found = _TAG_TEXT.match(data, at, at + MAX_VALUE)
    if found is None:
        return None
    text = found[1].partition(b"]]>")[0].rstrip().decode("utf-8", "replace")
    if not is_secret_text(text, name.secrecy) or is_words(text):
        return None
    return at, at + len(text.encode())
