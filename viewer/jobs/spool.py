"""The lines that a child writes of its run, and that a follower reads. Standard library only.

A job's folder holds ``request.json`` (what to do, see ``Request``), ``events.jsonl`` (one JSON
object a line: ``seq``, ``at`` in seconds, ``kind``, ``data``), ``log.txt`` (what the run printed)
and ``lock`` (held by the child for as long as it lives).

The kinds, and what their data hold:

=====================  =====================================================================
started                pid, engine, engine_version, python_version
steps                  steps: the plan as the child found it (see ``Step`` in plan.py)
task_started           task (id), position (from 1), description, agent
task_completed         task, position, agent, output (its first 2,000 characters)
task_failed            task, position, agent, error
method_started         method
method_completed       method
method_failed          method, error
model_started          model, agent
model_completed        model, agent, tokens (of this call), total_tokens (so far)
model_failed           model, agent, error
tool_started           tool, agent, arguments
tool_completed         tool, agent
tool_failed            tool, agent, error
text                   text (streamed since the last such line), agent
checkpoint             id, parent, path (a file, or ``store.db#id``), branch, trigger
checkpoint_failed      error, moved (whether the location was renamed or replaced)
warning                message; also words, as ``ended`` has them
question               number (from 1), kind, prompt, context (see Question in models)
answered               number
withdrawn              number (what asked has gone on without an answer)
limit                  whose, measure, most (see Limit in viewer/jobs/limits/usage.py): it stops at it
preloaded              agents (their roles), strategy, tokens
look                   report: what was found without running anything (see viewer/jobs/preflight/checks.py)
ended                  status (succeeded, failed, cancelled), result, error, traceback; also words, of
                       which the error was made: text and values (see viewer/messages/message.py)
=====================  =====================================================================

``ended`` is always the last line; a spool without it belongs to a child that was cut off.

A question's answer is a file that the web's side writes whole (``answer-1.json``: ``{"text": …}``); the
child waits for it as long as it takes.
"""

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypedDict

REQUEST = "request.json"
EVENTS = "events.jsonl"
LOG = "log.txt"
LOCK = "lock"
# The copy of a checkpoint that is no more at its location; it goes when the job has ended.
STORED = "checkpoint.json"
# Where the child puts the copy that its engine restores from, while it does.
SCRATCH = "scratch"
# Stands there where a limit is reached that the run shares with others: what a ``limit`` line says of it.
STOP = "stop"
ANSWER = "answer-{number}.json"
HIDDEN = "[hidden]"
# Shorter texts are words that would be hidden everywhere.
SHORTEST_HIDDEN = 8
# A line longer than this is cut by its writer, so that a reader's memory is bounded.
MAX_EVENT_BYTES = 256 * 1024
# As much is read at once.
MAX_READ_BYTES = 4 * MAX_EVENT_BYTES
# The end of the year 9999, for clocks that went mad.
MAX_SECONDS = 253402300799


class CheckpointReference(TypedDict):
    id: str
    source: str


class CheckpointSource(CheckpointReference, total=False):
    """``source`` is a file's absolute path, or ``/absolute/store.db#id``.

    ``stored`` says that it stands there no more: then ``source`` is the copy in the job's folder, without
    its secrets, and the run needs an entry point.
    """

    stored: bool


class LocationTarget(TypedDict):
    path: str
    provider: Literal["json", "sqlite"]


class OutputEdit(TypedDict, total=False):
    """Exactly one of the two: a text, or a JSON value for a task whose output is JSON."""

    text: str
    json: Any


class StepRequest(TypedDict):
    """``action`` is one of plan.Action's values."""

    task: str
    action: str


class CheckpointSettings(TypedDict, total=False):
    """How a run writes checkpoints. What is missing stays as the project or the checkpoint has it.

    ``most`` keeps so many of those that this very run writes; no other is ever touched.
    """

    events: list[str]
    most: int


class Options(TypedDict, total=False):
    """What a person chose for a run beside its edits.

    ``matches`` names the project's own task (its number from 1) or agent (its role) for a saved one's id,
    or ``-`` where it is gone; ``accepted`` are the losses that a person has agreed to, ``*`` being whatever
    is lost: where it is there, nothing runs unless each loss is among them;
    ``models`` the model for an agent's role, or for all under ``*``; ``preload`` is parallel, sequential or
    shared_prefix. ``limits`` are the run's own: so many tokens, seconds and steps at most.
    """

    checkpoints: CheckpointSettings
    matches: dict[str, str]
    models: dict[str, str]
    preload: str
    limits: dict[str, float]
    accepted: list[str]


class Permissions(TypedDict, total=False):
    """What a person allows a child. ``protected`` are the paths that nothing is imported from.

    ``accepted_effects`` are the keys of the effects that were accepted for the project (``*``: any); a
    checkpoint's other effects are refused. ``entry_points`` are all of the project's own.
    """

    protected: list[str]
    accepted_effects: list[str]
    entry_points: list[str]


class Request(Permissions):
    """What a child is asked to do. ``inputs``, ``outputs`` and ``state`` hold only what was edited.

    A new run has all its inputs, and a checkpoint without id and source. A ``look`` runs nothing, and
    ``effects`` lists only the effects, which imports nothing.
    """

    job: str
    kind: Literal["resume", "fork", "run", "look", "effects"]
    checkpoint: CheckpointSource
    location: LocationTarget
    entity: Literal["crew", "flow", "agent"]
    name: str
    branch: str
    inputs: dict[str, Any]
    outputs: dict[str, OutputEdit]
    state: dict[str, Any] | None
    steps: list[StepRequest]
    folder: str
    entry_point: str
    options: Options


class SpoolEvent(TypedDict):
    seq: int
    at: float
    kind: str
    data: dict[str, Any]


class Spool:
    """Appends lines to a job's spool; ``hide`` are texts, such as keys, that never go into one."""

    def __init__(self, folder: Path, hide: Iterable[str] = ()) -> None:
        self._hide = sorted((text for text in hide if len(text) >= SHORTEST_HIDDEN), key=len, reverse=True)
        self._seq = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(folder / EVENTS, flags, 0o600)

    def write(self, kind: str, /, **data: Any) -> None:
        """Append one whole line in one write. Not for several threads at once: callers hold a lock."""
        self._seq += 1
        line = SpoolEvent(seq=self._seq, at=time.time(), kind=kind, data=self._masked(data))
        text = json.dumps(line, default=str)
        if len(text) > MAX_EVENT_BYTES:
            line["data"] = {"message": "This line was too long to keep.", "length": len(text)}
            text = json.dumps(line)
        os.write(self._file, text.encode() + b"\n")

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            for hidden in self._hide:
                value = _without_beginning(value.replace(hidden, HIDDEN), hidden)
            return value
        if isinstance(value, dict):
            return {str(key): self._masked(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._masked(item) for item in value]
        return value


def _without_beginning(text: str, hidden: str) -> str:
    """The text without the first part of a key at its end, where it was cut."""
    for length in range(len(hidden) - 1, SHORTEST_HIDDEN - 1, -1):
        if text.endswith(hidden[:length]):
            return text[:-length] + HIDDEN
    return text


def answer_name(number: int) -> str:
    """The file in a job's folder that holds the answer to its question of this number."""
    return ANSWER.format(number=number)


def read_events(folder: Path, offset: int) -> tuple[list[SpoolEvent], int]:
    """The whole lines that stand after ``offset`` bytes, and the offset behind them.

    A line that is still being written is left for the next call; one that is none of ours is skipped.
    No more than ``MAX_READ_BYTES`` are read: call again until the offset stays.
    """
    try:
        with open(folder / EVENTS, "rb") as file:
            file.seek(offset)
            data = file.read(MAX_READ_BYTES)
    except FileNotFoundError:
        return [], offset
    whole, newline, rest = data.rpartition(b"\n")
    if not newline:
        # No writer of ours makes a line this long: it is passed over.
        return [], offset + (len(data) if len(rest) == MAX_READ_BYTES else 0)
    lines = [line for text in whole.split(b"\n") if (line := event_from(text))]
    return lines, offset + len(whole) + 1


def event_from(text: bytes) -> SpoolEvent | None:
    """One line as its writer meant it, or None for anything else."""
    try:
        # NaN and its like are no JSON, and no database takes them.
        line = json.loads(text, parse_constant=str)
        if line["seq"] > 0 and 0 <= line["at"] < MAX_SECONDS and isinstance(line["data"], dict):
            return SpoolEvent(
                seq=int(line["seq"]), at=float(line["at"]), kind=str(line["kind"])[:40], data=line["data"]
            )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return None
