"""A project's environment file: its values, and which of them are secrets wherever they appear."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from dotenv import dotenv_values

from viewer.redaction.names.secrecy import secrecy_of
from viewer.redaction.names.shapes import has_known_format, is_mixed, is_placeholder, is_words

# Shorter values, and words shorter than that, would be hidden everywhere.
MIN_SECRET, MIN_WORD = 5, 8
# Values of a name that says nothing of a secret count from this many characters on.
MIN_UNNAMED = 8


def read_values(path: str) -> dict[str, str]:
    """What the file sets; nothing without a path. Raises OSError, or ValueError where it is no text."""
    if not path:
        return {}
    return {name: value for name, value in dotenv_values(path).items() if value is not None}


def secrets_at(path: str) -> tuple[str, ...]:
    """The secrets of the file as it is now. Raises OSError, or ValueError where it is no text."""
    if not path:
        return ()
    status = Path(path).stat()
    return _secrets_at(path, (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=32)
def _secrets_at(path: str, _version: tuple[int, ...]) -> tuple[str, ...]:
    return secrets_of(read_values(path))


def secrets_of(values: Mapping[str, str]) -> tuple[str, ...]:
    """The values that are secrets, in order: all but trivial ones, paths and addresses without a password."""
    return tuple(sorted({secret for name, value in values.items() for secret in _secrets_in(name, value)}))


def _secrets_in(name: str, value: str) -> Iterator[str]:
    lines = [value, *(line for line in value.splitlines() if line != value)]
    if "://" in value:
        yield from (part for part in _parts_of_address(value) if _is_long_enough(part))
        if secrecy_of(name) and not _is_plain_address(value):
            yield value
    elif secrecy_of(name):
        yield from (line for line in lines if _is_long_enough(line) and not is_placeholder(line))
    else:
        yield from (line for line in lines if _is_telling(line))


def _is_long_enough(secret: str) -> bool:
    is_word = secret.isalpha()
    return len(secret) >= MIN_WORD or (len(secret) >= MIN_SECRET and not is_word)


def _is_telling(value: str) -> bool:
    """Whether a value is a secret although its name does not say so."""
    if len(value) < MIN_UNNAMED or is_placeholder(value) or is_words(value):
        return False
    # Names of models, versions, dates, paths, numbers and flags are not.
    return not (value.isdigit() or has_known_format(value) or _is_name(value)) and is_mixed(value)


def _is_name(value: str) -> bool:
    """Whether it consists of words with short numbers, joined by signs: gpt-4o-mini, eu-west-1, a.b:8000."""
    parts = [part for sign in "_-./:,; " for part in [value] if sign in part]
    pieces = value
    for sign in "_-./:,;@ ":
        pieces = pieces.replace(sign, " ")
    words = pieces.split()
    return bool(parts) and all(
        word.isalpha() or (word.isdigit() and len(word) <= 8) or len(word) <= 3 for word in words
    )


def _parts_of_address(address: str) -> Iterator[str]:
    """The password and the secret parameters of an address, as they are written and as they are meant."""
    try:
        parts = urlsplit(address)
        password, query = parts.password, parse_qsl(parts.query)
    except ValueError:
        return
    if password:
        yield from (password, unquote(password))
    yield from (value for name, value in query if secrecy_of(name))


def _is_plain_address(address: str) -> bool:
    return next(_parts_of_address(address), None) is None
