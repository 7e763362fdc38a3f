"""The ids of LangGraph's threads, checkpoints and tasks, and the times and nodes that they contain."""

import hashlib
import re
from datetime import UTC, datetime, timedelta

from viewer.redaction.known_secrets import KnownSecrets, redacted_name

# UUIDs of version 6 count tenths of microseconds from this time.
_EPOCH = datetime(1582, 10, 15, tzinfo=UTC)
_UUID6 = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-6([0-9a-f]{3})-([0-9a-f]{4})-[0-9a-f]{12}", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_CALL = re.compile(r"\d{1,9}", re.ASCII)
# Not a task: the id with which LangGraph stores what a ``Command`` brings, such as an answer.
NULL_TASK = "00000000-0000-0000-0000-000000000000"
# With ``durability="exit"``, changes of channels are stored under ids that begin with their step.
_LATE_TASK = re.compile(r"(0000\d{4}|ffffffff-0000)-[0-9a-f-]+", re.ASCII)
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


def is_late(task_id: str) -> bool:
    """Whether the id is no task's, but made to store the changes of a step when its run ended."""
    return task_id != NULL_TASK and _LATE_TASK.fullmatch(task_id) is not None


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


def levels(namespace: str) -> list[str]:
    """The levels of a namespace, the outermost first: ``node:task``, or ``node`` for a graph with memory.

    If a node calls several graphs, a number follows from the second on: ``node:task|1``. It is no level.
    """
    found: list[str] = []
    for part in namespace.split("|") if namespace else ():
        if found and "|" not in found[-1] and _CALL.fullmatch(part):
            found[-1] += f"|{part}"
        else:
            found.append(part)
    return found


def parent_namespace(namespace: str) -> str:
    """The namespace whose step called this one."""
    return "|".join(levels(namespace)[:-1])


def is_within(namespace: str, outer: str) -> bool:
    """Whether a namespace is another one, or was called from it, directly or not."""
    own, others = levels(namespace), levels(outer)
    return own[: len(others)] == others


def calling_nodes(namespace: str) -> tuple[str, ...]:
    """The nodes that called a namespace, the outermost first."""
    return tuple(level.partition("|")[0].partition(":")[0] for level in levels(namespace))


def node_of(namespace: str) -> str:
    """The node that a namespace belongs to."""
    return next(reversed(calling_nodes(namespace)), "")


def title_of(namespace: str) -> str:
    """The node that a namespace belongs to, with the number of the call from the second on: ``node 2``."""
    _first, _bar, number = (levels(namespace) or [""])[-1].partition("|")
    return f"{node_of(namespace)} {int(number) + 1}" if number else node_of(namespace)


def task_of(namespace: str) -> str:
    """The id of the task that a namespace belongs to; empty for a graph with memory."""
    return (levels(namespace) or [""])[-1].partition("|")[0].partition(":")[2]
