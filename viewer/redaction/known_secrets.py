"""Redacts texts: known secrets, and everything that looks like one."""

import base64
import html
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from viewer.redaction import MARKER
from viewer.redaction.keywords import (
    ENCODED_KEYWORDS,
    base64_forms,
    encoded_forms,
    may_hold_secret,
    separated_forms,
)
from viewer.redaction.named_values import named_spans
from viewer.redaction.names import is_secret_text
from viewer.redaction.pairs import pair_spans, table_spans
from viewer.redaction.patterns import (
    TextSpan,
    anchored,
    compiled,
    has_digit,
    is_mixed,
    is_obscured,
    is_ordinary,
    is_placeholder,
    is_words,
    merged,
    obscured_spans,
    one_line,
    visible_text,
    without_spans,
    words_search,
)
from viewer.redaction.vendor_tokens import token_spans

# Known secrets: the values of a project's environment file, in every form in which a text may contain them.
#
# They are kept in memory only. A text is compared in lower case, as it is and without colours, characters
# that have no width, and line breaks: a terminal wraps the lines of a box in the middle of a word.


# Beyond this size, texts are compared word by word: one search for all forms would need too much memory.
MAX_SEARCHED_BYTES = 2 * 1024 * 1024
_WORD = compiled(r"[^\s\"'`\\,;<>()\[\]{}]{5,}")
# The shortest value, in bytes, that is searched in other encodings: fewer of a shorter one's characters are
# the same in every text. The longest one that is searched in all of them: their forms are many times as long.
MIN_ENCODED, MAX_ENCODED = 9, 200
# Levels of JSON inside JSON at which a value with quotes or backslashes is found.
_ESCAPED_LEVELS = 3


class KnownSecrets:
    """A set of secrets to be found in texts. An empty set is false.

    Without ``every_form``, only the values themselves are found, letter by letter.
    """

    def __init__(self, values: Iterable[str], *, every_form: bool = True) -> None:
        self._values = frozenset(value for value in values if value)
        self._every_form = every_form
        forms = {form for value in self._values for form in (forms_of(value) if every_form else (value,))}
        encoded = {form.encode("utf-8", "surrogatepass") for form in forms}
        if every_form:
            encoded = {form.lower() for form in encoded}
        self._has_blanks = any(b" " in form for form in encoded)
        self._words: frozenset[bytes] = frozenset()
        self._search: BytesAhoCorasick | None = None
        if sum(map(len, encoded)) > MAX_SEARCHED_BYTES:
            self._words = frozenset(encoded)
        elif encoded:
            self._search = BytesAhoCorasick(sorted(encoded), matchkind=MatchKind.LeftmostLongest)

    def __bool__(self) -> bool:
        return bool(self._values)

    def __repr__(self) -> str:
        return f"<{len(self._values)} known secrets>"

    def is_in(self, data: bytes) -> bool:
        """Return whether this text contains any of the secrets."""
        return next(iter(self.spans(data)), None) is not None

    def spans(self, data: bytes) -> list[TextSpan]:
        """Return the spans of the secrets in a text, in order."""
        if not self._every_form:
            return self._exact_spans(data)
        if not self._values:
            return []
        lowered = data.lower()
        spans = self._exact_spans(lowered)
        if not is_obscured(lowered):
            return spans
        visible = visible_text(lowered)
        spans += [visible.original(span) for span in self._exact_spans(visible.data)]
        for separator in (b"", b" ") if self._has_blanks else (b"",):
            line = one_line(visible.data, separator)
            spans += [visible.original(line.original(span)) for span in self._exact_spans(line.data)]
        return merged(spans)

    def _exact_spans(self, data: bytes) -> list[TextSpan]:
        if self._search is not None:
            return [(start, end) for _, start, end in self._search.find_matches_as_indexes(data)]
        if self._words:
            return merged(found.span() for found in _WORD.finditer(data) if found[0] in self._words)
        return []

    def redacted_in(self, data: bytes) -> bytes:
        """Return the text without the secrets; the same object if it contains none."""
        spans = self.spans(data)
        return without_spans(data, spans) if spans else data

    def is_number(self, number: float) -> bool:
        """Return whether a number is one of the secrets."""
        return bool(self._values) and str(number) in self._values


NONE_KNOWN = KnownSecrets(())


@lru_cache(maxsize=8)
def known_secrets(values: tuple[str, ...]) -> KnownSecrets:
    """Return the known secrets with these values."""
    return KnownSecrets(values) if values else NONE_KNOWN


def forms_of(value: str) -> Iterator[str]:
    """Yield the forms of a value in texts, in any case: unchanged, escaped, percent-encoded and encoded."""
    yield value
    if not value.isascii():
        # Of bytes, only the letters of ASCII are compared in lower case.
        yield from (value.lower(), value.upper())
    for ensure_ascii in (True, False):
        form = value
        for _ in range(_ESCAPED_LEVELS):
            form = json.dumps(form, ensure_ascii=ensure_ascii)[1:-1]
            yield form
            yield form.replace("/", "\\/")
    yield from (quote(value, safe=""), quote(value), quote_plus(value), quote(value, safe="").lower())
    yield from (html.escape(value), repr(value)[1:-1])
    data = value.encode("utf-8", "surrogatepass")
    if MIN_ENCODED <= len(data) <= MAX_ENCODED:
        yield from (*encoded_forms(data), *separated_forms(data))
    elif len(data) > MAX_ENCODED:
        yield from (form for offset in range(3) for form in base64_forms(data, offset))


# Redact texts. Each rule yields the spans of what it finds, which are then replaced together.


_MARKER = MARKER.encode()
# A text without any sign or blank, in which only a token can be found.
_WORD_BEFORE = anchored(r"[A-Za-z0-9_\-]*+$")
# The shortest text in which a rule can find anything.
MIN_BYTES = 6


def spans_in(data: bytes) -> list[TextSpan]:
    """Return the spans of the secrets in a UTF-8 text, in order."""
    if not may_hold_secret(data):
        return []
    if _WORD_BEFORE.match(data):
        spans = [*token_spans(data), *encoded_spans(data)]
    else:
        spans = [*_found_in(data), *obscured_spans(data, _found_in)]
    return merged(span for span in spans if _MARKER not in data[span[0] : span[1]]) if spans else spans


def _found_in(data: bytes) -> list[TextSpan]:
    """Return the spans that the rules find, in any order."""
    return [
        *token_spans(data),
        *private_key_spans(data),
        *encoded_spans(data),
        *url_spans(data),
        *credential_spans(data),
        *named_spans(data),
        *pair_spans(data),
        *table_spans(data),
    ]


def redact_text(text: str, known: KnownSecrets = NONE_KNOWN) -> str:
    """Return the text without known secrets and without anything that is recognised as a secret."""
    if len(text) < MIN_BYTES and not known:
        return text
    data = text.encode("utf-8", "surrogatepass")
    clean = known.redacted_in(data)
    if spans := spans_in(clean):
        clean = without_spans(clean, spans)
    return text if clean == data else clean.decode("utf-8", "surrogatepass")


def redacted_name(name: str, known: KnownSecrets = NONE_KNOWN) -> str:
    """Return the redacted name of a file or row. Different names stay different."""
    redacted = redact_text(name, known)
    return name if redacted == name else f"{redacted} ({zlib.crc32(name.encode('utf-8', 'replace')):08x})"


# Generated names have no part that could be a secret.
_GENERATED_NAME = re.compile(
    r"\d{8}T\d{6}_[0-9a-f]{8}(?:_p-(?:none|\d{8}T\d{6}_[0-9a-f]{8}))?(?:\.json)?", re.ASCII
)


def redacted_key(key: str, known: KnownSecrets = NONE_KNOWN) -> str:
    """The key without secrets. Different keys stay different."""
    folder, _, name = key.rpartition("/")
    if _GENERATED_NAME.fullmatch(name) and not known.is_in(name.encode()):
        return f"{_redacted_folder(folder, known)}/{name}" if folder else key
    return redacted_name(key, known)


@lru_cache(maxsize=1024)
def _redacted_folder(folder: str, known: KnownSecrets) -> str:
    return redacted_name(folder, known)


# Credentials in headers, commands and password files, recognised by the words around them.


_SCHEME = compiled(
    r"\b(?:[Bb]earer|BEARER|[Tt]oken|[Aa]pi[Kk]ey|ApiKey-v1|Bot|GenieKey|SSWS|Splunk|DeepL-Auth-Key)"
    r"[ \t]{1,8}"
    r"[\"']?([A-Za-z0-9._~+/=\-]{10,})"
)
_BASIC = compiled(r"\b(?:[Bb]asic|BASIC)[ \t]{1,8}([A-Za-z0-9+/_\-]{8,}={0,2})")
_USER = compiled(
    r"(?:^|[\s\"'])(?:-u|-a|--user|--proxy-user|--auth)[ \t=]{1,8}[\"']?"
    r"([^\s:\"'/\\-][^\s:\"'/\\]{0,100}):([^\s\"'\\]{1,300})"
)
_PASSWORD_FLAG = compiled(
    r"\b(?:sshpass|mysql|mysqldump|mysqladmin|docker login|redis-cli|ssh-keygen)\b([^\r\n|;]{0,300}?)"
    r"(?:\s-[pawN]\s?|\s--pass\s)[\"']?"
    r"([^\s\"'\\\-][^\s\"'\\]{3,200})"
)
_OPENSSL = compiled(r"\spass:([^\s\"'\\]{4,200})")
_PGPASS = compiled(
    r"(?:^|\n|\\n)[A-Za-z0-9.\-*_]{1,100}:(?:543[0-9]|6432|\*):[^\s:]{1,100}:[^\s:]{1,100}:([^\s\\]{3,200})"
)
_SHADOW = compiled(r"(?:^|\n|\\n)[a-z_][a-z0-9_\-]{0,31}:(\{SHA\}[^\s:]{10,200})")
_IDENTIFIED = compiled(r"\b(?:[Ii]dentified|IDENTIFIED) (?:[A-Za-z_0-9]{1,12} ){1,4}'([^'\n]{3,200})'")


# Oracle's user/password@service: in a command or call, or before what is the name of a database.
_ORACLE_USER = r"[A-Za-z][A-Za-z0-9_$#]{0,30}/([^\s/\"'<>\\]{3,60})"
_ORACLE_COMMAND = compiled(
    r"(?i)\b(?:(?:sqlplus|sqlldr|expd?p?|impd?p?|rman|conn|connect|userid|thin)\b[^\r\n@|;/]{0,60}[\s\"'=:(]"
    rf"{_ORACLE_USER}@|sqlplus(?: -[a-z]{{1,2}}){{0,3}} {_ORACLE_USER}(?:[\s\"']|$))"
)
_ORACLE_SERVICE = compiled(
    rf"(?:^|[\s\"'=:(,]){_ORACLE_USER}@(?:(?i:[a-z]{{0,12}}db|orcl|xe|xepdb|freepdb)[0-9]{{0,3}}(?:[\s\"'),;/]|$)"
    r"|(?://)?[A-Za-z0-9_.\-]{1,80}:1521\b|\(DESCRIPTION)"
)


_SCHEME_KEYWORDS = (
    b"earer",
    b"EARER",
    b"oken",
    b"piKey",
    b"Bot ",
    b"enieKey",
    b"SSWS ",
    b"plunk ",
    b"Auth-Key",
)


# A user and a password in a call: auth=("bob", "…"), .login("bob", "…"). gh secret set NAME --body "…".
_CALLED = compiled(
    r"(?:\bauth\s{0,4}=\s{0,4}\(|\.login\()\s{0,20}\\*[\"'][^\"'\n\\]{1,100}\\*[\"']\s{0,4},\s{0,20}"
    r"\\*[\"']([^\"'\n\\]{3,200})"
)
_SET = compiled(r"\bsecret set [A-Za-z0-9_]{1,80} (?:--body|-b)[ =]\\*[\"']?([^\s\"'\\]{4,500})")


_IN_COMMANDS = (
    *((_CALLED, b"auth"), (_CALLED, b".login(")),
    *((_OPENSSL, b" pass:"), (_SET, b"secret set ")),
)


def credential_spans(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of credentials."""
    if any(word in data for word in _SCHEME_KEYWORDS):
        yield from _schemes(data)
    if b"asic " in data or b"ASIC " in data:
        yield from (found.span(1) for found in _BASIC.finditer(data) if _is_base64(found[1]))
    for pattern, keyword in _IN_COMMANDS:
        if keyword in data:
            yield from _unless_placeholder(pattern.finditer(data))
    if b"/" in data and (b"@" in data or b"sqlplus" in data):
        yield from _oracle_passwords(data)
    if b"-u" in data or b"-a" in data:
        yield from _users(data)
    if b" -p" in data or b" -a" in data or b" --pass" in data or b" -w" in data or b" -N" in data:
        yield from _flags(data)
    if b"dentified" in data or b"DENTIFIED" in data:
        yield from (found.span(1) for found in _IDENTIFIED.finditer(data))
    if b"{SHA}" in data or any(port in data for port in (b":543", b":6432:", b":*:")):
        yield from _password_files(data)


def _oracle_passwords(data: bytes) -> Iterator[TextSpan]:
    for pattern in (_ORACLE_COMMAND, _ORACLE_SERVICE):
        for found in pattern.finditer(data):
            start, end = next(
                span for group in range(1, pattern.groups + 1) if (span := found.span(group))[0] >= 0
            )
            if not is_placeholder(data[start:end].decode("utf-8", "replace")):
                yield start, end


def _password_files(data: bytes) -> Iterator[TextSpan]:
    for found in _PGPASS.finditer(data):
        if is_secret_text(found[1].decode("latin-1"), "hard") and not found[1].isdigit():
            yield found.span(1)
    yield from (found.span(1) for found in _SHADOW.finditer(data))


def _unless_placeholder(matches: Iterable[Any]) -> Iterator[TextSpan]:
    for found in matches:
        if not is_placeholder(found[1].decode("utf-8", "replace")):
            yield found.span(1)


def _schemes(data: bytes) -> Iterator[TextSpan]:
    for found in _SCHEME.finditer(data):
        text = found[1].decode("latin-1").rstrip(".")
        is_bearer = found[0][:1] in b"bB"
        if has_digit(text[:200]) and (is_bearer or not is_ordinary(text)) and not is_placeholder(text):
            if is_bearer and is_words(text):
                continue
            yield found.start(1), found.start(1) + len(text)


def _is_base64(text: bytes) -> bool:
    """Return whether a text is Base64, and not only a word after “basic”."""
    plain = text.decode("latin-1")
    has_both = any(one.isupper() for one in plain[1:]) and any(one.islower() for one in plain)
    return plain.endswith("=") or (has_both and (any(one.isdigit() for one in plain) or len(plain) >= 12))


def _users(data: bytes) -> Iterator[TextSpan]:
    for found in _USER.finditer(data):
        around = data[max(0, found.start() - 300) : found.start()].lower()
        is_command = any(word in around for word in (b"curl", b"http", b"wget", b"svn", b"request", b"login"))
        text = found[2].decode("latin-1")
        if is_command and not is_placeholder(text) and not text.startswith("//") and not text.isdigit():
            yield found.span(2)


def _flags(data: bytes) -> Iterator[TextSpan]:
    for found in _PASSWORD_FLAG.finditer(data):
        text = found[2].decode("latin-1")
        if not is_placeholder(text) and (is_mixed(text) or not is_ordinary(text)):
            yield found.span(2)


# Private keys: blocks of lines in PEM, SSH2 and PuTTY formats.


MAX_BLOCK = 16 * 1024
_BEGIN = (
    r"(?:-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"
    r"|PuTTY-User-Key-File-\d:)"
)
_CONTENT = r"(?:(?:\\r|\\n|\s)*[A-Za-z][A-Za-z\-]{2,20}: [^\r\n\\]{0,120})*[A-Za-z0-9+/=\s\\]*"
# One or more blocks, all but the last of which are without an end.
_BLOCKS = compiled(rf"(?:{_BEGIN}{_CONTENT})*({_BEGIN}){_CONTENT}")
_END = compiled(
    r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|---- END SSH2 ENCRYPTED PRIVATE KEY ----"
    r"|Private-MAC:[ \t]{0,8}[0-9a-f]{0,80}"
)


# The same in Base64, as Kubernetes has them: up to where its letters end.
_ENCODED = compiled(
    r"LS0tLS1CRUdJTiB(?:SU0Eg|FQyBQ|PUEVO|QUklW|FTkNS|EU0Eg|QR1Ag)[A-Za-z0-9+/=]*"
    r"(?:(?:\\n|\s){1,40}[A-Za-z0-9+/=]{40,})*"
)


def private_key_spans(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of private keys: up to their last line, or as far as they have its characters."""
    if b"LS0tLS1CRUdJTiB" in data:
        yield from (found.span() for found in _ENCODED.finditer(data))
    if b"PRIVATE KEY" not in data and b"PuTTY-User-Key" not in data:
        return
    blocks = [(found.start(), found.end(1), found.end()) for found in _BLOCKS.finditer(data)]
    ends = [found.end() for found in _END.finditer(data)]
    following = 0
    for number, (start, after, content) in enumerate(blocks):
        next_begin = blocks[number + 1][0] if number + 1 < len(blocks) else len(data)
        while following < len(ends) and ends[following] <= after:
            following += 1
        limit = min(next_begin, after + MAX_BLOCK)
        has_end = following < len(ends) and ends[following] <= limit
        yield start, ends[following] if has_end else min(content, limit)


# Encoded texts that hold a secret: a token, a file of variables, Docker's logins. In Base64, Base32 or
# hexadecimal digits.


# Whole words. The letter after a backslash is no part of one.
_ENCODED_TEXT = compiled(r"(?:^|\\n|[^A-Za-z0-9+/_\-])([A-Za-z0-9+/_\-]{16,}={0,6})")
_ENCODED_SEARCH = words_search(ENCODED_KEYWORDS)
_HEX = anchored(r"(?:0x)?+((?:[0-9a-fA-F]{2})++)$")
_BASE32 = anchored(r"([A-Z2-7]++)=*+$")
# Bytes in hexadecimal digits, one by one or in pairs, and what is between them: 73:6b, 0x73, 0x6b. In a dump,
# the characters of a line and the address of the next one.
_BETWEEN_BYTES = (
    r"(?:[ \t]{1,4}[^\r\n\\]{0,20}(?:\r?\n|(?:\\r)?\\n)[0-9a-fA-F]{6,8}:?[ \t]{1,2}"
    r"|[:\-,]?(?:[ \t\r\n]|\\r|\\n){0,20}(?:0x)?)"
)
_SEPARATED_BYTES = compiled(
    rf"\b((?:0x)?[0-9a-fA-F]{{2}}(?:{_BETWEEN_BYTES}[0-9a-fA-F]{{2}}){{7,}})\b"
    r"(?:[ \t]{2,60}[^\s\\][^\r\n\\]{0,17})?"
)
_NEXT_BYTE = compiled(rf"{_BETWEEN_BYTES}([0-9a-fA-F]{{2}})")
MAX_DOCUMENT = 64 * 1024


def encoded_spans(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of encoded texts in which the rules find a secret."""
    if not _ENCODED_SEARCH.find_matches_as_indexes(data):
        return
    for pattern, group, decode in ((_ENCODED_TEXT, 1, _document), (_SEPARATED_BYTES, 0, _document_of_bytes)):
        for found in pattern.finditer(data):
            text = found[1]
            if len(text) <= MAX_DOCUMENT and _ENCODED_SEARCH.find_matches_as_indexes(text):
                document = decode(text)
                # Without what may obscure a secret: each of these steps would search the texts inside again.
                if document and may_hold_secret(document) and _found_in(document):
                    yield found.span(group)


def _document(encoded: bytes) -> bytes:
    """Return the text that is encoded; empty if there is none."""
    if digits := _HEX.match(encoded):
        return _text_of(bytes.fromhex(digits[1].decode()))
    if (letters := _BASE32.match(encoded)) and (text := _text_of(_from_base32(letters[1]))):
        return text
    return _text_of(_from_base64(encoded))


def _document_of_bytes(separated: bytes) -> bytes:
    """Return the text of bytes in hexadecimal digits. Their neighbours may look like bytes."""
    digits = b"".join(found[1] for found in _NEXT_BYTE.finditer(separated))
    return bytes.fromhex(digits.decode()).decode("utf-8", "replace").encode()


def _from_base32(letters: bytes) -> bytes:
    try:
        return base64.b32decode(letters + b"=" * (-len(letters) % 8))
    except ValueError:
        return b""


def _from_base64(encoded: bytes) -> bytes:
    try:
        data = base64.urlsafe_b64decode(encoded.replace(b"+", b"-").replace(b"/", b"_") + b"==")
        is_packed = data.startswith(b"\x1f\x8b")
        return zlib.decompressobj(wbits=31).decompress(data, MAX_DOCUMENT) if is_packed else data
    except (ValueError, zlib.error):
        return b""


def _text_of(data: bytes) -> bytes:
    """Return the bytes if they are a text in UTF-8; else none."""
    try:
        return data.decode().encode()
    except ValueError:
        return b""


# Secrets in URLs: passwords before a host, signatures in a query, and webhooks.


_LOGIN = compiled(
    r"[A-Za-z][A-Za-z0-9+.\-]{0,20}:(?://|\\/\\/)[^\s/@:\"'<>\\]{0,200}:([^\s/\"'<>\\]{1,500})@"
)
# A token before a host, without a user name.
_TOKEN_LOGIN = compiled(r"(?:https?|git|ssh):(?://|\\/\\/)([A-Za-z0-9_\-]{20,200})@")
_SIGNED = compiled(
    r"[?&;](?:amp;)?(?:[sS]ig|SIG|(?:[A-Za-z_\-]{0,12})[sS]ignature|X-Amz-Credential|X-Amz-Security-Token"
    r"|X-Goog-Credential|x-amz-credential|x-amz-security-token|AWSAccessKeyId|hmac|hdnts)=([^&\s\"'<>\\#]{8,})"
)
_WEBHOOK = compiled(
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|/webhooks/\d{5,30}/|webhook\.office\.com/webhookb2/"
    r"|telegram\.org/(?:file/)?bot\d{5,20}:|hooks\.zapier\.com/hooks/catch/|maker\.ifttt\.com/use/"
    r"|chat\.googleapis\.com/v1/spaces/[^\s?]{1,80}\?key=|qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key="
    r"|open\.feishu\.cn/open-apis/bot/v2/hook/|webhook\.site/)([A-Za-z0-9/_\-@.]{6,300})"
)


def url_spans(data: bytes) -> Iterator[TextSpan]:
    """Yield the spans of the secrets in URLs."""
    if b"@" in data:
        for found in _LOGIN.finditer(data):
            if not is_placeholder(found[1].decode("latin-1")):
                yield found.span(1)
        yield from (found.span(1) for found in _TOKEN_LOGIN.finditer(data))
    if b"=" in data:
        yield from (found.span(1) for found in _SIGNED.finditer(data))
    if any(part in data for part in (b"hook", b"telegram.org", b"googleapis", b"ifttt")):
        yield from (found.span(1) for found in _WEBHOOK.finditer(data))
