"""Takes secrets out of values and texts, before anything is stored, sent or logged.

What goes: values of fields named like keys, tokens and passwords; texts that look like the keys of
known services, wherever they stand; and the values found under such fields, wherever else they
appear in the same value. Numbers under token-like names stay: they are counters.
"""

import json
import logging
import re
import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

MARKER = "[redacted]"

# hard: nothing but null and booleans stays. soft: numbers stay too. random: only random-looking texts go.
Secrecy = Literal["hard", "soft", "random", ""]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A number at the end of a name, as in API_KEY_2, is none of its words.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# One text for each list, words apart by spaces: shorter to read than as many quoted ones.
_HARD = _words(
    "password passwords passwd passphrase passcode pwd secret secrets credential credentials creds"
    " authorization cookie cookies dsn"
)
_SOFT = _words("token jwt bearer auth apikey apitoken headers")
_HARMLESS_OWNERS = _words(
    "cache primary foreign sort public partition crew task agent event run source group index unique dict map"
    " lookup row column item object result output input state memory storage idempotency hot short arrow"
    " translation locale registry checkpoint thread metric feature json data field entity"
)
# A name that ends so tells about a secret, and does not hold it.
_ABOUT = _words(
    "name names type types count usage limit required policy enabled file path url uri expiry expires ttl"
    " provider length process field fields at in source method mode"
)
_WHOLE = re.compile(
    r"(?:access|refresh|auth|api)_tokens\Z|api_keys\Z"
    r"|(?:connection_string|connectionString|ConnectionString|CONNECTION_STRING)\Z"
)
# Written as one word.
_COMPACT = re.compile(
    r"(?:(?:api|access|secret|private)key|password|passwd|clientsecret|(?:access|auth)token|connectionstring)\Z"
)
_NUMBERED = re.compile(r"(?:[Kk]ey|KEY|[Tt]oken|TOKEN)[_\-][vV]?\d+\Z")
# What follows a name of a secret without making it another thing: api_key_old, token_value.
_TRAIL = re.compile(r"(?<=.)[_\-](?:value|raw|plain|old|new|backup|prod|dev|test|live|[vV]\d+)\Z", re.I)
# A key or token of something: api_key_openai, token_github.
_OF = re.compile(r"(?:[Aa]pi|API)[_\-]?(?:[Kk]ey|KEY)[_\-]|(?:[Tt]oken|TOKEN)[_\-]")
# Whose "pass" is a password, and whose "pat" a personal access token.
_PASS_OWNERS = _words(
    "db database smtp imap user mail email ftp redis pg postgres mysql mongo admin root login proxy"
)
_PAT_OWNERS = _words("github gitlab gh azure ado devops git")


@lru_cache(maxsize=4096)
def secrecy_of(name: str) -> Secrecy:
    """How secret a field of this name is; empty for one that is not."""
    name = _TRAIL.sub("", name)
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in _ABOUT:
        return ""
    if not _HARD.isdisjoint(words) or _COMPACT.search(words[-1]):
        return "hard" if not _HARD.isdisjoint(words) else "soft"
    if not (name[-1].isalpha() or _NUMBERED.search(name)):
        return ""
    last, owner = words[-1], words[-2] if len(words) > 1 else ""
    if (last in ("key", "pass", "pat") and not owner) or (last.endswith("key") and name == last.upper()):
        return "random"
    is_key = last == "key" and owner not in _HARMLESS_OWNERS
    is_pass = (last == "pass" and owner in _PASS_OWNERS) or (last == "pat" and owner in _PAT_OWNERS)
    if is_key or is_pass or last in _SOFT or _WHOLE.search(name):
        return "soft"
    return "random" if _OF.search(name) else ""


# Keys that tell by themselves what they are. Nothing in them needs escaping in JSON.
_KNOWN = (
    r"(?<![A-Za-z0-9])(?:sk-(?=[A-Za-z0-9_\-]{0,200}[0-9A-Z])[A-Za-z0-9_\-]{8,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{12,}"
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_\-]{16,}"
    r"|xox[abeoprs]-[A-Za-z0-9\-]{10,}|xapp-[A-Za-z0-9\-]{10,}"
    r"|AIza[0-9A-Za-z_\-]{20,}"
    r"|hf_[A-Za-z0-9]{16,}|gsk_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{30,}"
    r"|[srp]k_(?:live|test)_[A-Za-z0-9]{10,}|lsv2_[A-Za-z0-9_]{16,}"
    r"|SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}"
    r"|(?:tvly|nvapi|pypi)-[A-Za-z0-9_\-]{16,}|(?:xai|pplx|csk)-[A-Za-z0-9]{20,}"
    r"|(?:pcsk|glsa|whsec|lin_api|dckr_pat)_[A-Za-z0-9_\-]{16,}|(?:r8|ntn)_[A-Za-z0-9]{30,}"
    r"|(?:dop_v1|shpat|sbp|e2b)_[0-9a-f]{20,}|dapi[0-9a-f]{32}"
    r"|(?:ya29|hvs)\.[A-Za-z0-9_\-.]{20,}"
    r"|eyJ[A-Za-z0-9_\-]{8,4000}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]+)?)"
)
_BEARER = r"\b([Bb]earer|BEARER)(\s+)(?=[^\s\"'\\]{0,200}\d)[A-Za-z0-9._~+/=\-]{10,}"
_PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
    r"(?:.{0,8000}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|[A-Za-z0-9+/=\s\\]*)"
)
_LOGIN_IN_URL = (
    r"([A-Za-z][A-Za-z0-9+.\-]{0,20}:(?://|\\/\\/)[^\s/@:\"'<>\\]{0,200}:)([^\s/\"'<>\\]{1,500})(@)"
)
_WEBHOOK = r"(hooks\.slack\.com/services/|/webhooks/\d{5,30}/|telegram\.org/bot\d{5,20}:)[A-Za-z0-9/_\-]+"
_TOKENS = re.compile(_KNOWN)
_BEARERS = re.compile(_BEARER)
_PRIVATE_KEYS = re.compile(_PRIVATE_KEY, re.DOTALL)
_LOGINS_IN_URLS = re.compile(_LOGIN_IN_URL)
_WEBHOOKS = re.compile(_WEBHOOK)
# Only in the three ways in which a word is written: secret, Secret, SECRET.
_KEY, _API = "(?:[Kk]ey|KEY)", "(?:[Aa]pi|API)"
_NAMED = "|".join(
    f"{word}|{word.title()}|{word.upper()}"
    for word in (
        "secret",
        "passwd",
        "password",
        "passphrase",
        "pwd",
        "token",
        "authorization",
        "cookie",
        "credential",
        "dsn",
        "bearer",
        "auth",
        "jwt",
    )
)
_OWNERS = "[Aa]ccess|ACCESS|[Pp]rivate|PRIVATE"
_NAME = (
    rf"[A-Za-z0-9_\-.]{{0,40}}(?:{_API}[_\- ]?{_KEY}|(?:{_OWNERS})[_\-]?{_KEY}|{_NAMED}"
    rf"|(?:[_\-]|\b){_KEY}|[a-z]Key|[_\-](?:[Pp]ass|PASS|PAT)|[Cc]onnection_?[Ss]tring)"
    r"[A-Za-z0-9_\-]{0,40}"
)
# name="value", 'name': 'value', \"name\": \"value\" in a longer text.
_QUOTED = re.compile(
    rf"(?P<name>{_NAME})(\\*[\"']?[ \t\r\n]*[:=][ \t\r\n]*\\*)([\"'])"
    r"(?P<value>(?:(?!\3)[^\\\n]){1,4000})(?=\\*\3)"
)
# NAME=value and Name: value.
_BARE = re.compile(
    rf"(?P<name>{_NAME})([\"']? ?[:=] ?)(?P<value>(?:(?i:basic|digest|bearer) +)?[^\s\"'\\,;&<>()\[\]{{}}]+)"
)


def redact_text(text: str) -> str:
    """The text without what looks like a secret in it."""
    text = _TOKENS.sub(MARKER, text)
    if "earer" in text or "EARER" in text:
        text = _BEARERS.sub(rf"\1\2{MARKER}", text)
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEYS.sub(MARKER, text)
    if "@" in text:
        text = _LOGINS_IN_URLS.sub(rf"\1{MARKER}\3", text)
    if "hooks.slack" in text or "/webhooks/" in text or "telegram.org" in text:
        text = _WEBHOOKS.sub(rf"\1{MARKER}", text)
    if ":" in text or "=" in text:
        text = _QUOTED.sub(_without_quoted, text)
        text = _BARE.sub(_without_bare, text)
    return text


def _without_quoted(match: re.Match[str]) -> str:
    secrecy = secrecy_of(match["name"])
    if not secrecy or not is_secret_text(match["value"], secrecy):
        # What stands there may be name and value once more.
        return f"{match['name']}{match[2]}{match[3]}{_BARE.sub(_without_bare, match['value'])}"
    return f"{match['name']}{match[2]}{match[3]}{MARKER}"


def _without_bare(match: re.Match[str]) -> str:
    value, secrecy = match["value"], secrecy_of(match["name"])
    if not secrecy:
        return f"{match['name']}{match[2]}{_BARE.sub(_without_bare, value)}"
    if value.startswith(MARKER[:-1]) or (secrecy == "soft" and value.isdigit()):
        return match[0]
    if not is_secret_text(value, secrecy):
        return match[0]
    # "Token: a unit of text" is prose, "TOKEN=abc" and "password: hunter2!" are not.
    assigned = "=" in match[2] and len(value) >= 4
    if not assigned and not looks_random(value):
        return match[0]
    return f"{match['name']}{match[2]}{MARKER}"


def looks_random(text: str) -> bool:
    """Whether a text of eight or more signs is no ordinary word: it mixes letters with other signs."""
    return len(text) >= 8 and not text.isalpha() and not text.isdigit() and not text.isspace()


class RedactingFormatter(logging.Formatter):
    """Writes log lines, and the errors behind them, without what looks like a secret."""

    def format(self, record: logging.LogRecord) -> str:
        return redact_text(super().format(record))


def shown_name(name: str) -> str:
    """The name of a file or row without what looks like a secret in it, still another for another name."""
    shown = redact_text(name)
    return name if shown == name else f"{shown} ({zlib.crc32(name.encode('utf-8', 'replace')):08x})"


def is_clean(text: str) -> bool:
    """Whether redacting leaves this text as it is."""
    return _text_without(text, ()) == text


def is_secret_text(text: str, secrecy: Secrecy) -> bool:
    """Whether this is what a field of that secrecy hides; under a mere “key” only what looks like one."""
    if not text or text == MARKER:
        return False
    return secrecy != "random" or (len(text) >= 16 and " " not in text and looks_random(text))


def redact(value: Any) -> Any:
    """A copy of a decoded JSON value without its secrets."""
    return _without(value, _by_length(secrets_in(value)))


def secrets_in(value: Any) -> set[str]:
    """The texts under secret-named fields that are telling enough to be looked for elsewhere."""
    found: set[str] = set()
    waiting: list[tuple[Any, Secrecy]] = [(value, "")]
    while waiting:
        item, secrecy = waiting.pop()
        if isinstance(item, dict):
            waiting += [(inner, secrecy or secrecy_of(name)) for name, inner in item.items()]
        elif isinstance(item, list):
            waiting += [(inner, secrecy) for inner in item]
        elif isinstance(item, str):
            if secrecy and is_secret_text(item, secrecy):
                found |= {item} if looks_random(item) else set()
            elif (inner := _json_inside(item)) is not None:
                waiting.append((inner, secrecy))
    return found


def _by_length(secrets: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(secrets, key=lambda secret: (-len(secret), secret)))


def _without(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return _text_without(value, secrets)
    if isinstance(value, list):
        return [_without(item, secrets) for item in value]
    if isinstance(value, dict):
        return {
            _text_without(name, secrets): (
                _masked(item, secrecy, secrets) if (secrecy := secrecy_of(name)) else _without(item, secrets)
            )
            for name, item in value.items()
        }
    return value


def _text_without(text: str, secrets: tuple[str, ...]) -> str:
    inner = _json_inside(text)
    if inner is not None:
        clean = _without(inner, secrets)
        if clean != inner:
            return json.dumps(clean)
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, MARKER)
    return redact_text(text) if len(text) >= 6 else text


def _masked(value: Any, secrecy: Secrecy, secrets: tuple[str, ...]) -> Any:
    """What stays of a secret field's value: its shape, and what cannot be a secret."""
    if isinstance(value, dict):
        return {name: _masked(item, secrecy, secrets) for name, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, secrecy, secrets) for item in value]
    if isinstance(value, str):
        return MARKER if is_secret_text(value, secrecy) else _text_without(value, secrets)
    if isinstance(value, bool) or value is None:
        return value
    return MARKER if secrecy == "hard" else value


def _json_inside(text: str) -> Any:
    """The object or list that a text holds as JSON; None where it holds none."""
    if len(text) < 8 or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
