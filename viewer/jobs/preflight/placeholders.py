"""Placeholders for the values of an environment file, because a preflight check never gets a real key."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from viewer.redaction.names.secrecy import secrecy_of
from viewer.redaction.values import is_clean

PLACEHOLDER = "placeholder-of-a-preflight-check"
# No name below this domain can ever be resolved (RFC 2606).
HOST = "placeholder.invalid"
# Needed to start Python. They hold no key.
KEPT = re.compile(r"PYTHON\w*|PATH|LD_LIBRARY_PATH|HOME|TZ|LANG|LC_\w+")
# Short values that projects parse while they are imported: flags, small numbers, dates, versions.
PLAIN = re.compile(
    r"(?i:true|false|yes|no|on|off|none|null|debug|info|warning|error|critical)"
    r"|-?\d{1,5}(\.\d{1,5})?|\d{4}-\d{2}-\d{2}(-preview)?|v\d{1,3}(\.\d{1,3}){0,2}"
)
# Names of models, which the engine needs to construct a client.
CHOICE_NAME = re.compile(r"(?:\w*_)?(?:MODEL|MODEL_NAME|DEPLOYMENT|PROVIDER|REGION)(?:_NAME)?", re.IGNORECASE)
CHOICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,79}")
ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
PREFIX = re.compile(r"[A-Za-z]{2,4}[-_]")


def placeholders_for(values: Mapping[str, str]) -> dict[str, str]:
    """The same names with placeholders, from which clients can be constructed without access to anything."""
    return {name: placeholder_for(name, value) for name, value in values.items()}


def placeholder_for(name: str, value: str) -> str:
    """The value if it cannot be a key, an address or a password, else a placeholder."""
    if not value or KEPT.fullmatch(name):
        return value
    if address := ADDRESS.match(value):
        return f"{address[1]}://{HOST}"
    if secrecy_of(name):
        return _prefix(value) + PLACEHOLDER
    if PLAIN.fullmatch(value):
        return value
    if CHOICE_NAME.fullmatch(name) and CHOICE.fullmatch(value) and is_clean(value):
        return value
    if value[0] in "[{":
        return _empty_json(value)
    # A key may look like a path, but no such file exists.
    return value if value.startswith(("/", "./", "../", "~/")) and _exists(value) else PLACEHOLDER


def _prefix(value: str) -> str:
    """The prefix of a vendor's keys, such as ``sk-``, which some clients require."""
    found = PREFIX.match(value)
    return found[0] if found else ""


def _empty_json(value: str) -> str:
    try:
        return "[]" if isinstance(json.loads(value), list) else "{}"
    except ValueError:
        return PLACEHOLDER


def _exists(value: str) -> bool:
    try:
        return Path(value).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False
