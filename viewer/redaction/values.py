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
from typing import Any

from viewer.redaction.named_values import without_named_values
from viewer.redaction.names import MARKER, Secrecy, is_secret_text, looks_random, secrecy_of

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
_LOGIN_IN_URL = (
    r"([A-Za-z][A-Za-z0-9+.\-]{0,20}:(?://|\\/\\/)[^\s/@:\"'<>\\]{0,200}:)([^\s/\"'<>\\]{1,500})(@)"
)
_WEBHOOK = r"(hooks\.slack\.com/services/|/webhooks/\d{5,30}/|telegram\.org/bot\d{5,20}:)[A-Za-z0-9/_\-]+"
_TOKENS = re.compile(_KNOWN)
_BEARERS = re.compile(_BEARER)
_PRIVATE_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_PRIVATE_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_PRIVATE_KEY_SIGNS = re.compile(r"[A-Za-z0-9+/=\s\\]*")
MOST_PRIVATE_KEY = 8000
_LOGINS_IN_URLS = re.compile(_LOGIN_IN_URL)
_WEBHOOKS = re.compile(_WEBHOOK)


def redact_text(text: str) -> str:
    """The text without what looks like a secret in it."""
    text = _TOKENS.sub(MARKER, text)
    if "earer" in text or "EARER" in text:
        text = _BEARERS.sub(rf"\1\2{MARKER}", text)
    if "PRIVATE KEY" in text:
        text = _without_private_keys(text)
    if "@" in text:
        text = _LOGINS_IN_URLS.sub(rf"\1{MARKER}\3", text)
    if "hooks.slack" in text or "/webhooks/" in text or "telegram.org" in text:
        text = _WEBHOOKS.sub(rf"\1{MARKER}", text)
    if ":" in text or "=" in text:
        text = without_named_values(text)
    return text


def _without_private_keys(text: str) -> str:
    """The text without private keys: up to their end, or as far as their letters go."""
    parts: list[str] = []
    done = 0
    while begin := _PRIVATE_KEY_BEGINS.search(text, done):
        parts += (text[done : begin.start()], MARKER)
        at = begin.end()
        end = _PRIVATE_KEY_ENDS.search(text, at, at + MOST_PRIVATE_KEY) or _PRIVATE_KEY_SIGNS.match(text, at)
        assert end, "No sign is enough for the last."
        done = end.end()
    return "".join((*parts, text[done:])) if parts else text


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
