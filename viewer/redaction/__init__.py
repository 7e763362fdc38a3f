"""Find secrets in texts, JSON values and JSON bytes, and replace them with a marker.

Other packages call ``known_secrets`` for texts, and ``values`` for JSON values and for JSON bytes, of which
it decodes few. ``known_secrets``, ``named_values``, ``pairs``, ``streamed_parts`` and ``vendor_tokens`` find
secrets, and ``names`` says what a field's name means.
"""

import hashlib
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

# The text that replaces a secret.
MARKER = "[redacted]"


@cache
def rules_digest() -> str:
    """Return a digest of this package's code and rules. Others may have shown what these hide."""
    files = sorted(file for file in Path(__file__).parent.iterdir() if file.suffix in (".py", ".toml"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


class Hidden:
    """The number of secrets that this process has replaced."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self, number: int) -> None:
        """Count secrets, also from several threads."""
        with self._lock:
            self.count += number


hidden = Hidden()


# Where redaction has hidden something in a decoded value, as JSON Pointers.


class HiddenValue(NamedTuple):
    """A text that is hidden, or has a hidden part.

    ``field`` is the name of the nearest field that holds it. ``path`` is its place in the syntax of jq.
    """

    pointer: str
    path: str
    field: str
    is_whole: bool


def hidden_values(value: Any) -> Iterator[HiddenValue]:
    """Yield what is hidden, in the order of the document."""
    pending: list[tuple[str, str, str, Any]] = [("", "", "", value)]
    while pending:
        pointer, path, field, item = pending.pop()
        if isinstance(item, str):
            if MARKER in item:
                yield HiddenValue(pointer, path, field, item == MARKER)
        elif isinstance(item, dict):
            below = [(*_below(pointer, path, name), name, inner) for name, inner in item.items()]
            pending += reversed(below)
        elif isinstance(item, list):
            pending += reversed([(*_below(pointer, path, at), field, one) for at, one in enumerate(item)])


def _below(pointer: str, path: str, key: str | int) -> tuple[str, str]:
    token = str(key).replace("~", "~0").replace("/", "~1")
    return f"{pointer}/{token}", f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}"


def value_at(value: Any, pointer: str) -> Any:
    """Return the value to which a JSON Pointer leads. Raises LookupError."""
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdecimal() and len(key) < 10:
            value = value[int(key)]
        else:
            raise LookupError(pointer)
    return value
