"""Credentials in headers, commands and password files, recognised by the words around them."""

from collections.abc import Iterable, Iterator
from typing import Any

from viewer.redaction.names.secrecy import is_secret_text
from viewer.redaction.names.shapes import has_digit, is_mixed, is_ordinary, is_placeholder, is_words
from viewer.redaction.patterns import TextSpan, compiled

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
    for pattern, keyword in (
        (_CALLED, b"auth"),
        (_CALLED, b".login("),
        (_OPENSSL, b" pass:"),
        (_SET, b"secret set "),
    ):
        if keyword in data:
            yield from _unless_placeholder(pattern.finditer(data))
    if b"-u" in data or b"-a" in data:
        yield from _users(data)
    if b" -p" in data or b" -a" in data or b" --pass" in data or b" -w" in data or b" -N" in data:
        yield from _flags(data)
    if b"dentified" in data or b"DENTIFIED" in data:
        yield from (found.span(1) for found in _IDENTIFIED.finditer(data))
    if b"{SHA}" in data or any(port in data for port in (b":543", b":6432:", b":*:")):
        yield from _password_files(data)


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
