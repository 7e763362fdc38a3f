"""Redacts the keys of entries and problems. Different keys stay different."""

import dataclasses
import re
from functools import lru_cache
from typing import TypeVar

from viewer.redaction.known_secrets import NONE_KNOWN, KnownSecrets
from viewer.redaction.texts import redacted_name
from viewer.stores.protocol import Entry, ReadProblem

# Generated names have no part that could be a secret.
_GENERATED_NAME = re.compile(
    r"\d{8}T\d{6}_[0-9a-f]{8}(?:_p-(?:none|\d{8}T\d{6}_[0-9a-f]{8}))?(?:\.json)?", re.ASCII
)
_Listed = TypeVar("_Listed", Entry, ReadProblem, Entry | ReadProblem)


def redacted_key(key: str, known: KnownSecrets = NONE_KNOWN) -> str:
    """The key without secrets. Different keys stay different."""
    folder, _, name = key.rpartition("/")
    if _GENERATED_NAME.fullmatch(name) and not known.is_in(name.encode()):
        return f"{_redacted_folder(folder, known)}/{name}" if folder else key
    return redacted_name(key, known)


@lru_cache(maxsize=1024)
def _redacted_folder(folder: str, known: KnownSecrets) -> str:
    return redacted_name(folder, known)


def with_redacted_key(listed: _Listed, known: KnownSecrets) -> _Listed:
    """The entry or problem with a redacted key. The real key of an entry is in ``unredacted_key``."""
    key = redacted_key(listed.key, known)
    if key == listed.key:
        return listed
    if isinstance(listed, Entry):
        return dataclasses.replace(listed, key=key, unredacted_key=listed.key)
    return dataclasses.replace(listed, key=key)
