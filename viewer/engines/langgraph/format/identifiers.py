"""The ids of LangGraph's threads, checkpoints and tasks, and the times and nodes that they contain."""

import hashlib
import re
from datetime import UTC, datetime, timedelta

from viewer.redaction.known_secrets import KnownSecrets
from viewer.redaction.texts import redacted_name

# UUIDs of version 6 count tenths of microseconds from this time.
_EPOCH = datetime(1582, 10, 15, tzinfo=UTC)
_UUID6 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-6([0-9a-f]{3})-([0-9a-f]{4})-[0-9a-f]{12}", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
MAX_RUN_KEY = 200
MAX_ID_LENGTH = 300


def created_at(checkpoint_id: str) -> datetime | None:
    """When a checkpoint was written, in UTC; None if its id is not a UUID of version 6."""
    match = _UUID6.fullmatch(checkpoint_id)
    if match is None:
        return None
    ticks = int(match[1] + match[2] + match[3], 16)
    try:
        return _EPOCH + timedelta(microseconds=ticks / 10)
    except OverflowError:
        return None


def valid_text(text: str) -> str:
    """A text of a column that may not be UTF-8, with its other bytes escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def shown_id(text: str, known: KnownSecrets) -> str:
    """An id without secrets. A UUID is shown as it is, unless it contains a known secret."""
    if _UUID.fullmatch(text) and not known.is_in(text.encode()):
        return text
    return redacted_name(valid_text(text), known)


def shown_namespace(namespace: str, known: KnownSecrets) -> str:
    """A namespace without secrets: ``node:task|node:task``."""
    return "|".join(
        ":".join(shown_id(part, known) for part in level.split(":")) for level in namespace.split("|")
    )


def run_key(thread: str, namespace: str) -> str:
    """The key of the run of a thread, or of a namespace in it, with at most ``MAX_RUN_KEY`` characters."""
    key = f"{thread} {namespace}" if namespace else thread
    if len(key) <= MAX_RUN_KEY:
        return key
    digest = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{key[: MAX_RUN_KEY - 17]}…{digest}"


def source_key(thread: str, namespace: str, checkpoint_id: str) -> str:
    """The source key of a checkpoint: ``thread/checkpoint`` or ``thread/namespace/checkpoint``."""
    return "/".join(part for part in (thread, namespace, checkpoint_id) if part)


def possible_ids(key: str) -> list[tuple[str, str, str]]:
    """The triples of thread, namespace and checkpoint id that a source key may name."""
    thread, _slash, checkpoint_id = key.rpartition("/")
    outer, _slash, namespace = thread.rpartition("/")
    return [(thread, "", checkpoint_id), *([(outer, namespace, checkpoint_id)] if outer else [])]


def parent_namespace(namespace: str) -> str:
    """The namespace whose step called this one."""
    return namespace.rpartition("|")[0]


def calling_nodes(namespace: str) -> tuple[str, ...]:
    """The nodes that called a namespace, the outermost first."""
    return tuple(level.partition(":")[0] for level in namespace.split("|") if level)


def node_of(namespace: str) -> str:
    """The node that a namespace belongs to."""
    return namespace.rpartition("|")[2].partition(":")[0]


def task_of(namespace: str) -> str:
    """The id of the task that a namespace belongs to."""
    return namespace.rpartition("|")[2].partition(":")[2]
