"""Values that follow a secret's name in a longer text: NAME=value, "name": "value", --name value.

Names are found by the word that makes them the name of a secret, in one pass over the text. What follows a
name tells its notation, and each notation has a function that returns the value's span:

- a sign of assignment: ``_assigned``, and for comparisons ``_compared``;
- the cell of a table, a list of arguments, or an XML element: ``_cell``, ``_argument``, ``_tag_text``;
- a blank, after a command's flag: ``_flag``;
- words of prose: ``_in_prose``, ``_next_word``.

Whether a value is a secret depends on its name's secrecy, and on how much its notation tells: a quoted value
that is assigned counts unless it is a placeholder, a word of prose only if it looks like a secret.
"""

from collections.abc import Iterator
from typing import NamedTuple

from viewer.redaction.keywords import FOREIGN_LABELS
from viewer.redaction.names import Secrecy, is_harmless_owner, is_secret_text, secrecy_of
from viewer.redaction.pairs import MAX_VALUE, ValueSpan, ascii_at, complete_span, items_at, value_at
from viewer.redaction.patterns import (
    TextSpan,
    anchored,
    compiled,
    has_digit,
    has_known_format,
    is_machine_made,
    is_mixed,
    is_ordinary,
    is_placeholder,
    is_uuid,
    is_words,
    looks_random,
    words_search,
)
from viewer.redaction.vendor_tokens import labels

# Words in the names of secrets, in lower case. The longest that matches counts.
SECRET_WORDS = (
    *("secret", "passwd", "password", "passphrase", "passcode", "pwd", "pswd", "passwrd", "pw", "mdp", "psk"),
    *("token", "authorization", "cookie", "credential", "creds", "dsn", "bearer", "auth"),
    *("jwt", "otp", "sessionid", "sessid", "mnemonic", "_pat", "key", "api key", "access key"),
    *("private key", "secret key", "connection string", "connectionstring", "connection_string"),
    *(
        "seed phrase",
        "seed_phrase",
        "recovery phrase",
        "session key",
        "_pass",
        "-pass",
        "pass",
        "signing key",
    ),
    *("headers", "accountsignature", "webhook", "webhook url", "session", "signature", "hmac", "kubeconfig"),
    *(
        "pin",
        "cvv",
        "cvc",
        "puk",
        "salt",
        "pepper",
        "seed",
        "sas",
        "sig",
        "code",
        "code is",
        "_uri",
        "uri",
        "url",
    ),
    *("access code", "security code", "verification code", "backup code", "recovery code", "pin code"),
)


def _spellings(label: str) -> set[str]:
    """Return a label in lower case, with accents in either case: only the letters of ASCII are lowered."""
    curly = label.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}")
    forms = {label, curly, label.replace(" ", "_"), label.replace(" ", "-")}
    forms |= {form.capitalize() for form in forms}
    return forms | {form.upper().encode().lower().decode() for form in forms if not form.isascii()}


_FOREIGN = [form for label in FOREIGN_LABELS for form in _spellings(label)]
_SEARCH = words_search([*SECRET_WORDS, *labels(), *_FOREIGN])
_NAME_CHARACTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.$")
MAX_BEFORE, MAX_AFTER = 60, 40


class Name(NamedTuple):
    """A name in a text, and its secrecy."""

    start: int
    end: int
    text: str
    secrecy: Secrecy

    @property
    def is_in_capitals(self) -> bool:
        return self.text.upper() == self.text


def named_spans(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of the values that follow secrets' names."""
    after = cookies_end = 0
    for _number, start, end in _SEARCH.find_matches_as_indexes(data.lower()):
        if start < after:
            continue
        name = _name_at(data, start, end, after)
        after = name.end
        if name.secrecy == "cookie":
            if start < cookies_end:
                continue
            line = _line_of_cookies(data, name.end)
            # Without a sign of assignment, no cookie is secret, and the line need not be read again.
            cookies_end = name.end + len(line) if b"=" not in line else 0
        if name.secrecy and (span := _value_of(data, name)):
            yield span
            after = span[1]


def _name_at(data: bytes, start: int, end: int, earliest: int) -> Name:
    first, last = max(earliest, start - MAX_BEFORE), min(len(data), end + MAX_AFTER)
    while start > first and data[start - 1] in _NAME_CHARACTERS:
        start -= 1
    # In JSON inside JSON, the letter after a backslash is not part of the name.
    if data[start - 1 : start] == b"\\" and data[start : start + 1] in (b"n", b"t", b"r"):
        start += 1
    while end < last and data[end] in _NAME_CHARACTERS and data[end] != _DOT:
        end += 1
    text = data[start:end].decode("utf-8", "replace").lstrip("-.$")
    if " " in text:
        text = text.replace(" ", "_")
    return Name(start, end, text, secrecy_of(text.rpartition(".")[2] or text))


_DOT = ord(".")

# What closes a name, and what then tells the notation. The signs in bytes are an arrow, dashes, and the colon
# and the equals sign of Chinese. Python before 3.11.5 matches a possessive "?+" of the last group wrongly.
_FOLLOWING = anchored(
    r"(?P<close>[\\\"'`*_\])]*+)(?:"
    r"\s{0,40}+(?P<compares>[!=]==?)\s{0,20}+"
    r"|\s{0,40}+(?P<assigns>:{1,3}=|[?+.|]{1,2}=|=>|->|=|::|:"
    r"|\xe2\x86\x92|\xe2\x80[\x93\x94](?=\s)|\xef\xbc\x9a|\xef\xbc\x9d)[*_`]{0,3}+"
    r"[ \t]{0,80}+"
    r"|(?P<cell>[ \t]{0,80}+\|[ \t]{0,80}+)"
    r"|(?P<comma>\s{0,4}+,\s{0,40}+(?:[a-z_]{1,20}+=)?+)"
    r"|(?P<blanks>[ \t]{1,80}+(?:\\\r?\n\s{0,20}+)?)"
    r")?+"
)
_TAG_END = anchored(r"(?:\s[^<>]{0,300}+)?+>(?:<!\[CDATA\[)?+\s{0,40}+")


def _value_of(data: bytes, name: Name) -> TextSpan | None:
    """Return the span of the value after a name, or None if that is not a secret."""
    if data[name.start - 1 : name.start] in (b"<", b":") and (tag := _TAG_END.match(data, name.end)):
        return _tag_text(data, tag.end(), name)
    following = _FOLLOWING.match(data, name.end)
    # The pattern matches anywhere, with an empty text if need be.
    assert following is not None
    match following.lastgroup:
        case "assigns":
            return _assigned(data, name, following.end(), following["assigns"])
        case "compares":
            return _compared(data, name, following.end())
        case "cell" if name.secrecy not in ("random", "vendor"):
            return _shaped(data, name, following.end(), 6)
        case "comma" if following["close"].strip(b"\\*_])"):
            return _argument(data, name, following.end())
        case "blanks":
            return _after_blanks(data, name, following.end("close"), following.end())
    return _in_prose(data, name, following.end("close"))


def _after_blanks(data: bytes, name: Name, at: int, word: int) -> TextSpan | None:
    if data[name.start : name.start + 2] == b"--" or _follows_command(data, name):
        return _flag(data, name, word)
    return _in_prose(data, name, at) or _next_word(data, name, word)


# Assignments: NAME=value, name: "value", export NAME=value

_ANNOTATION = anchored(
    r"(?:Optional\[|Final\[)?+(?:str|string|String|SecretStr|bytes|char\s?+\*|&str|&'static str)\]?+"
    r"(?:\s?+\|\s?+(?:None|null|undefined))?+\s{0,8}+=\s{0,40}+"
)
_NEXT_LINE = anchored(r"(?:\\n|\r?+\n)[ \t]{1,40}+")
_ENV_LINE_START = compiled(
    r"(?:^|\n|\\n)[ \t]*(?:export |set |setx |ENV |ARG |-e |--env |\$env:|\+ ?|declare -x )?$"
)
_WORD = anchored(r"\S++")
_LINE = anchored(r"[^\r\n']++")
_LONG_SCHEMES = anchored(r"(?i:digest|aws4-hmac-sha256|negotiate|oauth|hawk|signature|ntlm)[ \t]")
_COOKIE_PAIR = compiled(r"(?:^|;[ \t]*)[A-Za-z0-9_.\-]{1,80}=([^\s;\"]{1,300})")


def _assigned(data: bytes, name: Name, at: int, sign: bytes) -> TextSpan | None:
    """Return the span of a secret after a sign of assignment."""
    is_equals = sign.endswith(b"=")
    if annotation := _ANNOTATION.match(data, at):
        at, is_equals = annotation.end(), True
    if next_line := _NEXT_LINE.match(data, at, at + MAX_VALUE):
        return _shaped(data, name, next_line.end(), 6)
    lowered = name.text.lower()
    if ("cookie" in lowered or "authorization" in lowered) and (span := _rest_of_line(data, at, lowered)):
        return span
    if sign == b"=" and data[at - 1] == _EQUALS and _is_env_line(data, name):
        return _in_env_line(data, name, at)
    if not name.text.isascii() and data[at : at + 1] not in _QUOTES:
        return _judged(data, name, ascii_at(data, at))
    if data[at : at + 1] == b"[":
        return _list_of_secrets(data, name, at)
    return _secret_value(data, name, value_at(data, at), is_equals)


def _list_of_secrets(data: bytes, name: Name, at: int) -> TextSpan | None:
    """Return the span from the first secret of a list to its end."""
    items = list(items_at(data, at))
    first = next((item.start for item in items if _secret_value(data, name, item, True)), None)
    if first is None:
        return None
    last = items[-1].end
    end = data.find(b"]", last, last + MAX_VALUE)
    return first, max(last, first + len(data[first:end].rstrip(b" \t\r\n,\\\"'")))


_EQUALS = ord("=")
_QUOTES = (b'"', b"'", b"`", b"\\")


def _is_env_line(data: bytes, name: Name) -> bool:
    if not name.is_in_capitals:
        return False
    return _ENV_LINE_START.search(data[max(0, name.start - 24) : name.start]) is not None


def _in_env_line(data: bytes, name: Name, at: int) -> TextSpan | None:
    """Return the span of a secret in a file of variables, whose values may have any character but blanks."""
    value = value_at(data, at)
    if data[at : at + 1] in (b'"', b"'", b"`", b"$"):
        return _secret_value(data, name, value, True)
    word = _WORD.match(data, at, at + MAX_VALUE)
    if word and b"(" not in word[0] and is_secret_text(word[0].decode("utf-8", "replace"), name.secrecy):
        return word.span() if _is_bare_secret(word[0], name, True) else None
    return _secret_value(data, name, value, True)


_BEFORE_COOKIES = anchored(r"[\s:=\"'\\]{0,40}+")


def _line_of_cookies(data: bytes, at: int) -> bytes:
    """Return the rest of a line, up to a quote, with the signs before it."""
    before = _BEFORE_COOKIES.match(data, at)
    start = before.end() if before else at
    ends = (data.find(sign, start, start + MAX_VALUE) for sign in (b'"', b"'", b"\n", b"\r", b"\\n"))
    return data[at : min((end for end in ends if end >= 0), default=start + MAX_VALUE)]


def _rest_of_line(data: bytes, at: int, name: str) -> TextSpan | None:
    """Return the span of the rest of a line with cookies, or with a scheme that has many parts."""
    while data[at : at + 1] in (b'"', b"'", b"\\"):
        at += 1
    if "cookie" not in name and not _LONG_SCHEMES.match(data, at):
        return None
    line = _LINE.match(data, at, at + MAX_VALUE)
    if line is None:
        return None
    text = line[0].partition(b'"' if "cookie" in name else b"\\n")[0].partition(b"\\n")[0].rstrip(b' \t"\\')
    if not text or b"[redacted]" in text:
        return None
    return (at, at + len(text)) if "cookie" not in name or _has_secret_cookie(text) else None


def _has_secret_cookie(text: bytes) -> bool:
    """Return whether a cookie has a value that is no word, number or quantity."""
    values = (found[1].decode("utf-8", "replace") for found in _COOKIE_PAIR.finditer(text))
    return any(len(value) >= 4 and not value.isdigit() and not is_ordinary(value) for value in values)


def _secret_value(data: bytes, name: Name, value: ValueSpan | None, is_equals: bool) -> TextSpan | None:
    """Return the span of an assigned value, if it is a secret."""
    if value is None:
        return None
    raw = data[value.start : value.end]
    text = raw.decode("utf-8", "replace")
    if not is_secret_text(text, name.secrecy):
        return None
    if value.form == "bare":
        following = data[value.end : value.end + 1]
        if following in (b"(", b"[") or not _is_bare_secret(raw, name, is_equals, following):
            return None
    elif (value.form == "block" and is_words(text)) or (
        is_words(text) and (" " in text.strip() or name.secrecy != "hard") and len(text) < 8
    ):
        return None
    return complete_span(data, value)


_CODE_VALUE = anchored(r"[A-Za-z_][A-Za-z_0-9]*+(?:\.[A-Za-z_][A-Za-z_0-9]*+)*+$")


def _is_bare_secret(raw: bytes, name: Name, is_equals: bool, following: bytes = b"") -> bool:
    """Return whether a value without quotes is a secret, and not code or prose."""
    text = raw.decode("utf-8", "replace")
    if name.secrecy in ("hard", "code") and text.isdigit():
        return len(text) >= 4
    if text.isdigit() or len(text) < 4:
        return False
    _scheme, blank, credential = text.partition(" ")
    if blank and is_placeholder(credential):
        return False
    if not is_equals:
        return _looks_secret(text, name)
    if _CODE_VALUE.match(raw) and not is_machine_made(text):
        if "." in text and not is_mixed(text):
            return False
        return (
            name.is_in_capitals
            or following in (b";", b"&")
            or (is_mixed(text) and (name.secrecy == "hard" or not is_ordinary(text)))
        )
    return True


# Comparisons: name == "value"


def _compared(data: bytes, name: Name, at: int) -> TextSpan | None:
    """Return the span of a secret with which a name is compared."""
    value = value_at(data, at)
    if value is None or value.form != "quoted":
        return _shaped(data, name, at, 8)
    text = data[value.start : value.end].decode("utf-8", "replace")
    if len(text) < 5 or not is_secret_text(text, name.secrecy):
        return None
    return complete_span(data, value) if not is_words(text) or name.secrecy == "hard" else None


# Lists and flags: "name", "value"; --name value


def _argument(data: bytes, name: Name, at: int) -> TextSpan | None:
    """Return the span of a secret after a quoted name and a comma. It may also be the next name of a list."""
    if data[at : at + 1].isalnum():
        return None
    return _shaped(data, name, at, 8)


_SETS = compiled(r"(?i)(?:\bsetx|\bset -[a-zA-Z]{1,3}) $")


def _follows_command(data: bytes, name: Name) -> bool:
    if data[name.start - 1 : name.start] == b" " and _SETS.search(data[max(0, name.start - 12) : name.start]):
        return True
    if name.text.lower() not in ("password", "passwd"):
        return False
    before = data[max(0, name.start - 300) : name.start].lower()
    return b"login" in before or b"machine" in before or b"user " in before


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
    is_plain = text.isdigit() and name.secrecy not in ("hard", "code")
    return None if is_plain or text.startswith(("/", "./", "~")) else complete_span(data, value)


# XML: <name>value</name>

_TAG_TEXT = anchored(r"([^<>]++)>?+</")


def _tag_text(data: bytes, at: int, name: Name) -> TextSpan | None:
    """Return the span of a secret in an XML element."""
    found = _TAG_TEXT.match(data, at, at + MAX_VALUE)
    if found is None:
        return None
    text = found[1].removesuffix(b"]]").rstrip().decode("utf-8", "replace")
    if not is_secret_text(text, name.secrecy) or is_words(text):
        return None
    return at, at + len(text.encode())


# Prose: the password is value; the key for the database: value

# Verbs between a name and its value. In Chinese, Japanese and Korean, no blanks surround them.
_VERB = (
    r"(?:is|was|are|to|equals|equal to|set to|changed to|will be|be|ist|lautet|war|est|sera|es|era|será|é|foi"
    r"|è|są|jest|är|er|on)"
)
_COLON, _COMMA = "\N{FULLWIDTH COLON}", "\N{FULLWIDTH COMMA}"
_SPACED_VERB = anchored(
    rf"[\s:]{{1,3}}+(?i:{_VERB})(?: now| set to| jetzt)?+(?::|{_COLON})?+\s{{1,3}}+[*_`]{{0,3}}+"
)
_ATTACHED_VERB = anchored(
    rf"\s{{0,3}}+(?:是|为|為|設為|设为|は|が|を|는|은|이|가|를|을)(?::|{_COLON}|{_COMMA}|、)?+"
    r"\s{0,3}+[*_`「『“]{0,3}+"
)
# What a key is for, before a colon or a verb: password for the database: value. Its words are not possessive:
# Python before 3.11.5 goes wrong where such a group fails after its first part has matched.
_PURPOSE = anchored(
    r"(?i: (?:for|of|to|on|in|at|du|de|des|d'|da|do|dos|la|le|les|für|fuer|zum|zur|der|die|das|dem|del|al|el"
    r"|para|pour|von|van|voor|per|till|api|til|dla|do|за|для|от))"
    rf"(?: (?!(?i:{_VERB}) )[\w.'\-\x80-\xff]{{1,24}}+){{0,4}}"
    rf"(?:\s?+(?::(?!//)|{_COLON}|=|=>)|(?= (?i:{_VERB}) ))"
)


def _in_prose(data: bytes, name: Name, at: int) -> TextSpan | None:
    """Return the span of a secret in a sentence, as in “the password is hunter2”."""
    if purpose := _PURPOSE.match(data, at, at + 200):
        at = purpose.end()
        if data[at - 1 : at] in (b":", b"=", b">", b"\x9a"):
            blanks = len(data[at : at + 4]) - len(data[at : at + 4].lstrip())
            return _shaped(data, name, at + blanks, 6)
    least = 4 if name.secrecy == "code" else 6
    if verb := _SPACED_VERB.match(data, at):
        return _shaped(data, name, verb.end(), least)
    if not name.text.isascii() or data[at : at + 1] >= b"\xe3":
        if verb := _ATTACHED_VERB.match(data, at):
            return _judged(data, name, ascii_at(data, verb.end()))
        return _judged(data, name, ascii_at(data, at + (data[at : at + 1] == b" ")))
    return None


def _judged(data: bytes, name: Name, value: ValueSpan | None) -> TextSpan | None:
    """Return the span of a value that counts as a secret only by its form, as any text may follow here."""
    if value is None:
        return None
    text = data[value.start : value.end].decode("utf-8", "replace")
    if " " in text.strip() or not is_secret_text(text, name.secrecy):
        return None
    return complete_span(data, value) if _looks_secret(text, name) else None


def _shaped(data: bytes, name: Name, at: int, least: int) -> TextSpan | None:
    """Return the span of a value of a minimum length that counts as a secret only by its form."""
    span = _judged(data, name, value_at(data, at))
    return span if span and span[1] - span[0] >= least else None


def _looks_secret(text: str, name: Name) -> bool:
    """Return whether a text that may be prose is a secret: mixed characters, and not an ordinary name."""
    if name.secrecy == "code":
        return True
    if len(text) < 5 or is_words(text):
        return False
    if name.secrecy == "hard":
        return is_mixed(text) and not has_known_format(text)
    # The keys of some services are UUIDs.
    return looks_random(text) and is_mixed(text) and (is_uuid(text) or not is_ordinary(text))


def _next_word(data: bytes, name: Name, at: int) -> TextSpan | None:
    """Return the span of the word after a name, as in “password hunter2”, if it looks like a secret."""
    value = value_at(data, at)
    if value is None or name.secrecy == "vendor":
        return None
    text = data[value.start : value.end].decode("utf-8", "replace").rstrip(".,")
    if not is_secret_text(text, name.secrecy) or has_known_format(text) or " " in text:
        return None
    if name.secrecy == "random":
        return (
            complete_span(data, value) if len(text) >= MIN_AFTER_KEY and not _is_owned(data, name) else None
        )
    is_password = name.secrecy == "hard" and len(text) >= 6 and has_digit(text) and not is_ordinary(text)
    is_quoted_key = value.form == "quoted" and len(text) >= 16 and is_mixed(text) and not is_ordinary(text)
    is_key = is_machine_made(text) or (name.secrecy == "code" and text.isdigit() and value.form == "bare")
    return complete_span(data, value) if is_password or is_quoted_key or is_key else None


# The least length of a machine-made text after the word "key".
MIN_AFTER_KEY = 20


def _is_owned(data: bytes, name: Name) -> bool:
    """Return whether the word before “key” makes it an ordinary one."""
    before = data[max(0, name.start - 24) : name.start].decode("latin-1").split()
    return bool(before) and is_harmless_owner(before[-1].lower())
