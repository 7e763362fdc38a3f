"""Takes secrets out of values and texts, before anything is stored, sent or logged.

What goes: values of fields named like keys, tokens and passwords; texts that look like the keys of
known services, wherever they stand; and the values found under such fields, wherever else they
appear in the same value. Numbers under token-like names stay: they are counters.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

MARKER = "[redacted]"

# hard: nothing but null and booleans stays. soft: numbers stay too. random: only random-looking texts go.
Secrecy = Literal["hard", "soft", "random", ""]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# One text for each list, words apart by spaces: shorter to read than as many quoted ones.
_HARD = _words(
    "password passwords passwd passphrase passcode pwd secret secrets credential credentials creds"
    " authorization cookie cookies dsn"
)
_SOFT = _words("token jwt bearer auth apikey apikeys apitoken headers")
_TOKEN_OWNERS = _words("access refresh auth api")
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
_COMPACT = re.compile(
    r"api_?key|access_?key|secret_?key|private_?key|password|passwd|client_?secret|access_?token|auth_?token"
    r"|connection_?string",
    re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def secrecy_of(name: str) -> Secrecy:
    """How secret a field of this name is; empty for one that is not."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in _ABOUT:
        return ""
    last, owner = words[-1], words[-2] if len(words) > 1 else ""
    if not _HARD.isdisjoint(words):
        return "hard"
    if last in _SOFT or (last == "tokens" and owner in _TOKEN_OWNERS):
        return "soft"
    if last in ("key", "keys") and owner and owner not in _HARMLESS_OWNERS:
        return "soft"
    if last == "key" and not owner:
        return "random"
    return "soft" if _COMPACT.search(name) else ""


# Keys that tell by themselves what they are. Nothing in them needs escaping in JSON.
TOKENS = (
    r"(?<![A-Za-z0-9])(?:sk-(?=[A-Za-z0-9_\-]{0,200}[0-9A-Z])[A-Za-z0-9_\-]{8,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{12,}"
    r"|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_\-]{16,}"
    r"|xox[abeoprs]-[A-Za-z0-9\-]{10,}|xapp-[A-Za-z0-9\-]{10,}"
    r"|AIza[0-9A-Za-z_\-]{20,}|ya29\.[0-9A-Za-z_\-]{20,}"
    r"|hf_[A-Za-z0-9]{16,}|gsk_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_\-]{16,}"
    r"|[srp]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9]{16,}|lsv2_[A-Za-z0-9_]{16,}"
    r"|tvly-[A-Za-z0-9\-]{16,}|nvapi-[A-Za-z0-9_\-]{16,}|xai-[A-Za-z0-9]{20,}"
    r"|SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}"
    r"|eyJ[A-Za-z0-9_\-]{8,4000}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]+)?)"
)
_BEARER = r"(?i:\b(bearer)(\s+))(?=[^\s\"'\\]{0,200}\d)[A-Za-z0-9._~+/=\-]{10,}"
_PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
    r"(?:.{0,8000}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|[A-Za-z0-9+/=\s\\]*)"
)
_LOGIN_IN_URL = r"([A-Za-z][A-Za-z0-9+.\-]{0,20}:(?:\\?/){2}[^\s/@:\"'<>\\]{0,200}:)([^\s/\"'<>\\]{1,500})(@)"
_WEBHOOK = r"(hooks\.slack\.com/services/)[A-Za-z0-9/]+"
_TOKENS = re.compile(TOKENS)
_BEARERS = re.compile(_BEARER)
_PRIVATE_KEYS = re.compile(_PRIVATE_KEY, re.DOTALL)
_LOGINS_IN_URLS = re.compile(_LOGIN_IN_URL)
_WEBHOOKS = re.compile(_WEBHOOK)
_NAME = (
    r"[A-Za-z0-9_\-.]{0,40}(?i:api[_\- ]?key|access[_\-]?key|secret|passw(?:or)?d|passphrase|pwd|token"
    r"|authorization|cookie|credential|private[_\-]?key|dsn)[A-Za-z0-9_\-]{0,40}"
)
# name="value", 'name': 'value', \"name\": \"value\" in a longer text.
_QUOTED = re.compile(
    rf"(?P<name>{_NAME})(\\*[\"']?\s*[:=]\s*\\*)([\"'])(?P<value>(?:(?!\3)[^\\\n]){1, 4000})(?=\\*\3)"
)
# NAME=value and Name: value.
_BARE = re.compile(
    rf"(?P<name>{_NAME})([\"']?\s?[:=]\s?)(?P<value>(?:(?i:basic|digest|bearer)\s+)?[^\s\"'\\,;&<>()\[\]{{}}]+)"
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
    if "hooks.slack" in text:
        text = _WEBHOOKS.sub(rf"\1{MARKER}", text)
    if ":" in text or "=" in text:
        text = _QUOTED.sub(_without_quoted, text)
        text = _BARE.sub(_without_bare, text)
    return text


def _without_quoted(match: re.Match[str]) -> str:
    if not secrecy_of(match["name"]) or match["value"] == MARKER:
        return match[0]
    return f"{match['name']}{match[2]}{match[3]}{MARKER}"


def _without_bare(match: re.Match[str]) -> str:
    value, secrecy = match["value"], secrecy_of(match["name"])
    if not secrecy or value.startswith(MARKER[:-1]) or (secrecy == "soft" and value.isdigit()):
        return match[0]
    # "Token: a unit of text" is prose, "TOKEN=abc" and "password: hunter2!" are not.
    assigned = "=" in match[2] and len(value) >= 4
    if not assigned and not looks_random(value):
        return match[0]
    return f"{match['name']}{match[2]}{MARKER}"


def assigns_secret(text: str, position: int) -> bool:
    """Whether a secret is assigned in this text to the name that stands at this position."""
    return any(
        match.start() <= position < match.end() and match[0] != replace(match)
        for pattern, replace in ((_QUOTED, _without_quoted), (_BARE, _without_bare))
        for match in pattern.finditer(text)
    )


def looks_random(text: str) -> bool:
    """Whether a text of eight or more signs is no ordinary word: it mixes letters with other signs."""
    return len(text) >= 8 and not text.isalpha() and not text.isdigit() and not text.isspace()


def redact(value: Any) -> Any:
    """A copy of a decoded JSON value without its secrets."""
    return _without(value, _by_length(secrets_in(value)))


def secrets_in(value: Any) -> set[str]:
    """The texts under secret-named fields that are telling enough to be looked for elsewhere."""
    found: set[str] = set()
    waiting: list[tuple[Any, bool]] = [(value, False)]
    while waiting:
        item, secret = waiting.pop()
        if isinstance(item, dict):
            waiting += [(inner, secret or bool(secrecy_of(name))) for name, inner in item.items()]
        elif isinstance(item, list):
            waiting += [(inner, secret) for inner in item]
        elif isinstance(item, str):
            if secret and looks_random(item) and item != MARKER:
                found.add(item)
            elif (inner := _json_inside(item)) is not None:
                waiting.append((inner, secret))
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
            _text_without(name, secrets) if len(name) > 12 else name: (
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
        if secrecy == "random" and not (looks_random(value) and len(value) >= 16 and " " not in value):
            return _text_without(value, secrets)
        return MARKER if value else value
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
