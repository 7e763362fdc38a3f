"""Writes a small catalogue of another language, like gettext's tools."""

import struct
from collections.abc import Mapping
from pathlib import Path

HEADER = "Content-Type: text/plain; charset=UTF-8\n"
MAGIC, VERSION, ENTRY = 0x950412DE, 0, struct.Struct("<II")


def write_catalogue(folder: Path, language: str, texts: Mapping[str, str]) -> Path:
    """Write ``texts`` as a catalogue of this language below ``folder``, and add it to LOCALE_PATHS."""
    path = folder / language / "LC_MESSAGES" / "django.mo"
    path.parent.mkdir(parents=True)
    # The format requires the originals in order.
    pairs = sorted((key.encode(), value.encode()) for key, value in {"": HEADER, **texts}.items())
    tables = [28, 28 + ENTRY.size * len(pairs)]
    at = 28 + 2 * ENTRY.size * len(pairs)
    entries, strings = [b"", b""], b""
    for side in (0, 1):
        for pair in pairs:
            entries[side] += ENTRY.pack(len(pair[side]), at + len(strings))
            strings += pair[side] + b"\0"
    head = struct.pack("<7I", MAGIC, VERSION, len(pairs), *tables, 0, at)
    path.write_bytes(head + entries[0] + entries[1] + strings)
    return folder
