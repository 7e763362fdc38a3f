"""A project's environment file: its values, and which of them are secrets wherever they appear."""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from io import StringIO
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from dotenv import dotenv_values

from viewer.redaction.names.secrecy import is_secret_text, secrecy_of
from viewer.redaction.names.shapes import has_known_format, is_mixed, is_placeholder, is_words
from viewer.validation import content_of

MAX_BYTES = 512 * 1024
# Minimum lengths of a secret, and of one that is a word: ordinary text contains shorter ones.
MIN_SECRET, MIN_WORD = 5, 8
# Minimum length of a secret whose name does not indicate one.
MIN_UNNAMED = 8


def read_values(path: str) -> dict[str, str]:
    """Return the variables that the file sets; none without a path. Raises OSError or ValueError.

    A JSON file sets those of its object ``env``.
    """
    if not path:
        return {}
    if path.endswith(".json"):
        return _values_in_json(Path(path))
    if not Path(path).exists():
        return {}
    text = content_of(path, MAX_BYTES).decode()
    return {name: value for name, value in dotenv_values(stream=StringIO(text)).items() if value is not None}


def _values_in_json(path: Path) -> dict[str, str]:
    """The variables in a project's configuration, as texts."""
    found = json.loads(content_of(str(path), MAX_BYTES))
    values = found.get("env") if isinstance(found, dict) else None
    if not isinstance(values, dict):
        return {}
    return {name: str(value) for name, value in values.items() if isinstance(value, str | int | float)}


def secrets_at(path: str) -> tuple[str, ...]:
    """Return the secrets in the file as it is now. Raises OSError or ValueError."""
    if not path:
        return ()
    status = Path(path).stat()
    return _secrets_at(path, (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=32)
def _secrets_at(path: str, _version: tuple[int, ...]) -> tuple[str, ...]:
    return secrets_of(read_values(path))


def secrets_of(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets among the values, sorted. Paths and URLs without a password are not secrets."""
    return tuple(sorted({secret for name, value in values.items() for secret in _secrets_in(name, value)}))


def _secrets_in(name: str, value: str) -> Iterator[str]:
    lines = [value, *(line for line in value.splitlines() if line != value)]
    secrecy = secrecy_of(name)
    # Most sessions, signatures and addresses are no secrets: their form decides.
    is_named = bool(secrecy) and (secrecy not in ("made", "code") or is_secret_text(value, secrecy))
    if "://" in value:
        yield from (part for part in _secrets_in_url(value) if _is_long_enough(part))
        if is_named and not _is_plain_url(value):
            yield value
    elif is_named:
        yield from (line for line in lines if _is_long_enough(line) and not is_placeholder(line))
    else:
        yield from (line for line in lines if _is_unnamed_secret(line))


def _is_long_enough(secret: str) -> bool:
    is_word = secret.isalpha()
    return len(secret) >= MIN_WORD or (len(secret) >= MIN_SECRET and not is_word)


def _is_unnamed_secret(value: str) -> bool:
    """Whether a value is a secret although its name does not say so."""
    if len(value) < MIN_UNNAMED or is_placeholder(value) or is_words(value):
        return False
    # Names of models, versions, dates, paths, numbers and flags are not.
    return not (value.isdigit() or has_known_format(value) or _is_name(value)) and is_mixed(value)


def _is_name(value: str) -> bool:
    """Whether it consists of words and short numbers, joined by signs: gpt-4o-mini, eu-west-1, a.b:8000."""
    parts = [part for sign in "_-./:,; " for part in [value] if sign in part]
    pieces = value
    for sign in "_-./:,;@ ":
        pieces = pieces.replace(sign, " ")
    words = pieces.split()
    return bool(parts) and all(
        word.isalpha() or (word.isdigit() and len(word) <= 8) or len(word) <= 3 for word in words
    )


def _secrets_in_url(url: str) -> Iterator[str]:
    """Yield the password of a URL, as written and decoded, and its secret parameters."""
    try:
        parts = urlsplit(url)
        password, query = parts.password, parse_qsl(parts.query)
    except ValueError:
        return
    if password:
        yield from (password, unquote(password))
    yield from (value for name, value in query if secrecy_of(name))


def _is_plain_url(url: str) -> bool:
    return next(_secrets_in_url(url), None) is None
