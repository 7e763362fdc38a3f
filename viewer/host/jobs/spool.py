"""A job's folder: the files in it, and the events that a runner writes. Standard library only.

``request.json`` says what to do (``Request`` in viewer/engines/runner_protocol.py). The runner appends to
``events.jsonl``, one JSON object a line: ``seq`` (from 1), ``at`` (seconds since the epoch), ``kind``,
``data``. ``log.txt`` is what the run printed, and the runner holds ``lock`` until it exits.

The kinds of events and their data:

=====================  =====================================================================
started                pid, engine, engine_version, python_version
steps                  steps: the plan as the runner found it (see ``Step`` in plan.py)
task_started           task (id), position (from 1), description, agent
task_completed         task, position, agent, output (its first 2,000 characters)
task_failed, _retried  task, position, agent, error; retried: waited (seconds since it failed)
method_started         method
method_completed       method
method_failed          method, error
model_started          model, agent
model_completed        model, agent, tokens, tokens_in, tokens_out, cached, total_tokens (so far)
model_failed           model, agent, error
model_answered         model, recorded (model of the answer), agent, answer (its first 2,000 characters)
call_replayed          model, attempt (from 1), seconds, text, tools (name, arguments, id), error
tool_started           tool, agent, arguments
tool_completed         tool, agent
tool_failed            tool, agent, error
tool_decided           tool, decision (call, recorded or refuse), asked, arguments
text                   text (streamed since the last event of this kind), agent
node_started           node (its name, below the nodes whose graphs it is in), id, step
node_completed         node, id, output (its first 2,000 characters)
node_failed, _retried  node, id, error; retried: waited (seconds since it failed)
node_interrupted       node, id (it waits for a person)
breakpoint             nodes: those before which the run stopped at a breakpoint
custom                 value (what a node has streamed, as text)
checkpoint             id, parent, path (a file, or ``store.db#id``), branch, trigger; also thread, namespace
published              thread, into (see Options there), checkpoints (written; 0 if they were there already)
checkpoint_failed      error, moved (whether the location was renamed or replaced)
warning                message (see viewer/messages/message.py)
question               number (from 1), kind, prompt, context (see Question in models)
answered               number
withdrawn              number (the run went on without an answer)
limit                  whose, measure, max_amount: what stopped the run (viewer/records/limits.py)
cache_warmed           agents (their roles), strategy, tokens
preflight              report: the findings of a preflight check (viewer/engines/runner_protocol.py)
ended                  status (succeeded, failed, cancelled), result, error (a message), traceback
=====================  =====================================================================

``ended`` is always the last event. A spool without it belongs to a runner that was killed, or whose disk was
full: then ``reserved.json``, whose space is reserved in advance, holds it.

The web process writes the answer to a question atomically to a file (``answer-1.json``: ``{"text": …}``);
the runner waits for it without a time limit.
"""

import errno
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

REQUEST = "request.json"
EVENTS = "events.jsonl"
LOG = "log.txt"
# Written in advance, so that the last event has space on a full disk. Empty, or that event.
RESERVED, RESERVED_BYTES = "reserved.json", 16 * 1024
LOCK = "lock"
# A copy of a checkpoint that was pruned from its location. Deleted when the job has ended.
STORED = "checkpoint.json"
# Holds the copy that the engine restores from, while it does.
SCRATCH = "scratch"
# Written when a limit that the run shares with others is reached: the data of a ``limit`` event.
STOP = "stop"
ANSWER = "answer-{number}.json"
# The clean checkout in which a recorded commit runs, and what the import guard then reads.
CHECKOUT, GUARD = "checkout", "guard.json"
# The folder for temporary files of a run in a sandbox, with its home.
TEMPORARY = "temporary"
HIDDEN = "[hidden]"
# Shorter texts are common words, which would be hidden everywhere.
MIN_HIDDEN = 8
# The writer shortens the texts of a longer event, or replaces it, so that a reader's memory is bounded.
MAX_EVENT_BYTES = 512 * 1024
# The most characters of each text of such an event: the first number with which it fits.
TEXT_LENGTHS = (100_000, 40_000, 10_000, 2_000, 500, 160, 80)
# The data of an event that is nested more deeply are left out: redacting them would exceed Python's limit.
MAX_DEPTH = 100
# Read at once.
MAX_READ_BYTES = 4 * MAX_EVENT_BYTES
# What every database can store as a number.
MAX_EVENTS = 2**31 - 1
KIND = re.compile(r"[a-z_]{1,40}")
# The end of the year 9999: a clock may be wrong.
MAX_SECONDS = 253402300799


class SpoolEvent(TypedDict):
    """One line of a spool. ``at`` is in seconds since the epoch."""

    seq: int
    at: float
    kind: str
    data: dict[str, Any]


def _unchanged(value: Any, _most: int) -> Any:
    return value


class Spool:
    """Appends events to a job's spool, with the texts in ``hide``, such as keys, replaced.

    ``shorten`` returns the data of an event that is too long, with each text cut to a number of characters.
    """

    def __init__(
        self, folder: Path, hide: Iterable[str] = (), shorten: Callable[[Any, int], Any] = _unchanged
    ) -> None:
        self._shorten = shorten
        self._hide: list[str] = []
        self.hide(hide)
        self._seq = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(folder / EVENTS, flags, 0o600)
        self._reserved = os.open(folder / RESERVED, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with suppress(OSError):
            os.write(self._reserved, b" " * RESERVED_BYTES)

    def hide(self, texts: Iterable[str]) -> None:
        """Replace these texts as well from now on, unless they are too short to be anything but words."""
        added = (text for text in texts if len(text) >= MIN_HIDDEN)
        self._hide = sorted({*self._hide, *added}, key=len, reverse=True)

    def write(self, kind: str, /, **data: Any) -> None:
        """Append one event, in one write if the disk has space. Not thread-safe: the caller holds a lock.

        Raises OSError.
        """
        self._seq += 1
        event = SpoolEvent(seq=self._seq, at=time.time(), kind=kind, data=self._masked(data))
        text = self._fitting(event, MAX_EVENT_BYTES)
        if len(text) > MAX_EVENT_BYTES:
            event["data"] = {"message": "This event was too long to store.", "length": len(text)}
            text = json.dumps(event)
        line = text.encode() + b"\n"
        while line:
            line = line[os.write(self._file, line) :]

    def write_reserved(self, kind: str, /, **data: Any) -> None:
        """Write the last event to the space that was reserved for it. Long texts are shortened."""
        event = SpoolEvent(seq=self._seq + 1, at=time.time(), kind=kind, data=self._masked(data))
        line = self._fitting(event, RESERVED_BYTES).encode().ljust(RESERVED_BYTES)
        if len(line) == RESERVED_BYTES:
            os.pwrite(self._reserved, line, 0)

    def _fitting(self, event: SpoolEvent, max_bytes: int) -> str:
        """The event as JSON, with shorter texts if it has more bytes."""
        text = json.dumps(event, default=str)
        for most in TEXT_LENGTHS:
            if len(text) > max_bytes:
                event["data"] = self._shorten(event["data"], most)
                text = json.dumps(event, default=str)
        return text

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            for hidden in self._hide:
                value = _without_partial(value.replace(hidden, HIDDEN), hidden)
            return value
        if isinstance(value, dict):
            return {str(key): self._masked(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._masked(item) for item in value]
        return value


def _without_partial(text: str, hidden: str) -> str:
    """Return the text without the start of a hidden text at its end, where it was cut."""
    for length in range(len(hidden) - 1, MIN_HIDDEN - 1, -1):
        if text.endswith(hidden[:length]):
            return text[:-length] + HIDDEN
    return text


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file of a job, which its run may have replaced by a link to a file that it may not open itself.

    Raises FileNotFoundError if there is no regular file, and OSError.
    """
    try:
        opened = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return opened


def answer_name(number: int) -> str:
    """Return the name of the file that holds the answer to a question."""
    return ANSWER.format(number=number)


def read_events(folder: Path, offset: int) -> tuple[list[SpoolEvent], int]:
    """Return the complete events after ``offset`` bytes, and the offset after them.

    An event that is still being written is left for the next call; lines that are not events are skipped.
    Reads at most ``MAX_READ_BYTES``: call again until the offset no longer changes.
    """
    try:
        with open(open_regular(folder / EVENTS), "rb") as file:
            file.seek(offset)
            data = file.read(MAX_READ_BYTES)
    except FileNotFoundError:
        return [], offset
    complete, newline, rest = data.rpartition(b"\n")
    if not newline:
        # A runner never writes a line this long. Skip it.
        return [], offset + (len(data) if len(rest) == MAX_READ_BYTES else 0)
    events = [event for line in complete.split(b"\n") if (event := event_from(line))]
    return events, offset + len(complete) + 1


def reserved_event(folder: Path) -> SpoolEvent | None:
    """Return the event that a runner wrote to its reserved space, if any."""
    try:
        with open(open_regular(folder / RESERVED), "rb") as file:
            return event_from(file.read(RESERVED_BYTES))
    except OSError:
        return None


def event_from(line: bytes) -> SpoolEvent | None:
    """Return the event that a line holds, or None if it holds none."""
    try:
        # NaN and infinity are not JSON, and no database stores them.
        event = json.loads(line, parse_constant=str)
        seq, at, kind, data = int(event["seq"]), float(event["at"]), event["kind"], event["data"]
        has_kind = KIND.fullmatch(kind) is not None
        if has_kind and 0 < seq <= MAX_EVENTS and 0 <= at < MAX_SECONDS and isinstance(data, dict):
            if line.count(b"{") + line.count(b"[") > MAX_DEPTH and _is_deep(data):
                data = {"message": "This event was nested too deeply to store."}
            return SpoolEvent(seq=seq, at=at, kind=kind, data=data)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return None


def _is_deep(data: dict[str, Any]) -> bool:
    level: list[Any] = [data]
    for _depth in range(MAX_DEPTH):
        lists = [list(one.values()) if isinstance(one, dict) else one for one in level]
        level = [inner for one in lists for inner in one if isinstance(inner, dict | list)]
    return bool(level)
