"""The events of followed jobs: when they are read, their redacted rows in few transactions, and questions."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models.constants import OnConflict

from viewer.data_folder.database_file import clear_log
from viewer.data_folder.locks import exclusive_transaction
from viewer.host.jobs.files import storage_of
from viewer.host.jobs.spool import SpoolEvent
from viewer.host.project_secrets import secrets_for
from viewer.messages.message import message_from, redacted_message
from viewer.models import Job, JobEvent, Project, Question
from viewer.redaction import MARKER
from viewer.redaction.known_secrets import known_secrets
from viewer.redaction.values import redact as redact_value
from viewer.stores.protocol import count_of

# How often followers read their spools.
#
# Each read wakes a thread, which takes more processor time than the events that it finds. So the more
# jobs of a process write events at the same time, the more events a follower leaves for its next read.

# A follower of a job that writes nothing reads this often: the next event is stored at once.
POLL_SECONDS = 0.02
# The time between two reads of the process. With 20 busy jobs, each is read ten times a second.
SECONDS_A_READ = 0.005
MAX_READ_PAUSE_SECONDS = 0.1
# A job is busy for this long after an event.
BUSY_SECONDS = 0.3


@dataclass(eq=False, slots=True)
class Pace:
    """When each busy job of this process last had events, on the monotonic clock. Thread-safe."""

    busy: dict[UUID, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def pause_after_events(self, job: UUID) -> float:
        """Return how many seconds to wait before reading again, for a job that just had events."""
        now = time.monotonic()
        with self.lock:
            self.busy = {pk: at for pk, at in self.busy.items() if now - at < BUSY_SECONDS} | {job: now}
            return min(max(POLL_SECONDS, SECONDS_A_READ * len(self.busy)), MAX_READ_PAUSE_SECONDS)


# One for all followers of this process.
pace = Pace()


# Stores the events of all jobs that this process follows, in few transactions.
#
# A transaction costs as much as storing dozens of events. So a follower stores its events together with those
# of the followers that wait for the same transaction, and the busier the process is, the more events share
# one.


# After a transaction, the next one waits for this multiple of its duration. An event of a quiet process
# therefore waits a few milliseconds, and one of a busy process longer.
PAUSE_FACTOR = 4
MAX_STORE_PAUSE_SECONDS = 0.05


class RedactedEvent(NamedTuple):
    """The redacted values of one ``JobEvent``. ``job`` is the job's key."""

    job: UUID
    seq: int
    kind: str
    at: datetime
    data: dict[str, Any]


@dataclass(eq=False, slots=True)
class FollowerEvents:
    """The events of one follower."""

    rows: Sequence[RedactedEvent]
    is_done: bool = False
    error: Exception | None = None


@dataclass(eq=False)
class EventBatches:
    """The events that followers of this process wait to have stored. Thread-safe."""

    # Held by the follower that stores the events of all.
    writing: threading.Lock = field(default_factory=threading.Lock)
    waiting: deque[FollowerEvents] = field(default_factory=deque)
    # On the monotonic clock.
    next_at: float = 0.0

    def store(self, rows: Sequence[RedactedEvent]) -> None:
        """Return once these events are stored. Events that were stored before are ignored.

        Raises DatabaseError, such as IntegrityError if the job was deleted.
        """
        part = FollowerEvents(rows)
        self.waiting.append(part)
        with self.writing:
            if not part.is_done:
                time.sleep(max(0.0, self.next_at - time.monotonic()))
                # Others may append meanwhile, but only one follower removes.
                self.store_parts([self.waiting.popleft() for _ in range(len(self.waiting))])
        if part.error:
            raise part.error

    def store_parts(self, parts: Sequence[FollowerEvents]) -> None:
        """Store the events of these followers. Each part then has its error, if any."""
        started_at = time.monotonic()
        try:
            insert([row for part in parts for row in part.rows])
        except Exception:
            # Such as that one of the jobs was deleted. The others are not affected.
            for part in parts:
                part.error = _error_of(part)
        for part in parts:
            part.is_done = True
        ended_at = time.monotonic()
        self.next_at = ended_at + min(PAUSE_FACTOR * (ended_at - started_at), MAX_STORE_PAUSE_SECONDS)


# One for all followers of this process.
batches = EventBatches()


def _error_of(part: FollowerEvents) -> Exception | None:
    """Store the events of one follower. Return the error if they cannot be stored."""
    try:
        insert(part.rows)
    except Exception as error:
        return error
    return None


def insert(rows: Sequence[RedactedEvent]) -> None:
    """Insert the events in one transaction, without those that are stored already.

    Takes a third of the time of ``bulk_create``: one short statement is prepared, and no objects are made.
    """
    # The connection itself: its proxy is looked up again for each attribute.
    database = connections[DEFAULT_DB_ALIAS]
    fields = [one for one in JobEvent._meta.concrete_fields if not one.primary_key]
    quote, ignored = database.ops.quote_name, OnConflict.IGNORE
    statement = (
        f"{database.ops.insert_statement(ignored)} {quote(JobEvent._meta.db_table)}"
        f" ({', '.join(quote(str(one.column)) for one in fields)}) VALUES ({', '.join(['%s'] * len(fields))})"
        f" {database.ops.on_conflict_suffix_sql(fields, ignored, [], [])}"
    )
    job, _seq, _kind, at, data = (one.get_db_prep_save for one in fields)
    jobs = {pk: job(pk, database) for pk in {row.job for row in rows}}
    values = [
        (jobs[row.job], row.seq, row.kind, at(row.at, database), data(row.data, database)) for row in rows
    ]
    # Keys become visible in order, so a reader that continues after the last key misses no event.
    with exclusive_transaction("events"), database.cursor() as cursor:
        cursor.executemany(statement, values)


# Spool events as redacted rows.


# The field that holds a message, for each kind of event that has one.
MESSAGES = {"warning": "message", "ended": "error"}

logger = logging.getLogger(__name__)

Redactor = Callable[[Any], Any]
LOG_TAIL_CHARACTERS = 8 * 1024
# More is read than is shown, so that no secret is cut before it is redacted.
LOG_READ_BYTES = 8 * LOG_TAIL_CHARACTERS


def redactor_of(project: Project | None, started_with: str = "") -> Redactor:
    """A function that returns a copy of a JSON value without secrets, also those of this project.

    Raises JobRefused as ``secrets_for`` does.
    """
    known = known_secrets(secrets_for(project, started_with))

    def redact(value: Any) -> Any:
        return redact_value(storable(value), known)

    return redact


def storable(value: Any) -> Any:
    """A copy of a decoded JSON value without the characters that a database cannot store."""
    if isinstance(value, str):
        # A lone surrogate cannot be encoded.
        return value.encode(errors="replace").decode().replace("\0", "")
    if isinstance(value, dict):
        return {storable(name): storable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [storable(item) for item in value]
    return value


# Characters of an agent's earlier text with which the next part of it is judged.
MAX_BEFORE = 400


class StreamedTexts:
    """Redacts the parts of streamed texts as one text: the name of a secret may be in another event."""

    def __init__(self) -> None:
        # What each agent has written last.
        self._before: dict[str, str] = {}

    def copy(self) -> "StreamedTexts":
        copied = StreamedTexts()
        copied._before = dict(self._before)
        return copied

    def redacted(self, event: SpoolEvent, redact: Redactor) -> dict[str, Any]:
        """The event's data without secrets, also those that the events before reveal."""
        shown, before = redacted_data(event, redact), self._before.get(_agent_of(event), "")
        if text := _text_of(event):
            shown["text"] = _part_after(before, text, redact)
        self.add(event)
        return shown

    def add(self, event: SpoolEvent) -> None:
        """Take note of an event that the next ones continue."""
        if text := _text_of(event):
            agent = _agent_of(event)
            self._before[agent] = (self._before.get(agent, "") + text)[-MAX_BEFORE:]
        elif event["kind"].startswith("model_"):
            # Another text follows.
            self._before.pop(_agent_of(event), None)


def _agent_of(event: SpoolEvent) -> str:
    return str(event["data"].get("agent") or "")


def _text_of(event: SpoolEvent) -> str:
    """The part of a streamed text; empty for another event."""
    text = storable(event["data"].get("text")) if event["kind"] == "text" else ""
    return text if isinstance(text, str) else ""


def _part_after(before: str, text: str, redact: Redactor) -> str:
    """The text without secrets, judged as what follows ``before``."""
    alone: str = redact(text)
    if not before:
        return alone
    whole, start = redact(before + text), redact(before)
    if not whole.startswith(start) and whole.count(MARKER) < start.count(MARKER):
        return alone
    pairs = enumerate(zip(whole, start, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(whole), len(start)))
    rest: str = whole[same:]
    return rest if rest.count(MARKER) >= alone.count(MARKER) else alone


def redacted_data(event: SpoolEvent, redact: Redactor) -> dict[str, Any]:
    """The event's data without secrets."""
    data: dict[str, Any] = redact(event["data"])
    field = MESSAGES.get(event["kind"], "")
    if isinstance(event["data"].get(field), dict) and (message := message_from(event["data"][field])):
        data[field] = redacted_message(message, redact).as_data()
    return data


def rows_of(
    job: Job, events: Sequence[SpoolEvent], redact: Redactor, texts: StreamedTexts | None = None
) -> list[RedactedEvent]:
    """The redacted rows of these events, in the same order. ``texts`` has seen the events before them."""
    texts = texts or StreamedTexts()
    return [
        RedactedEvent(
            job=job.pk,
            seq=event["seq"],
            kind=event["kind"],
            at=datetime.fromtimestamp(event["at"], UTC),
            data=texts.redacted(event, redact),
        )
        for event in events
    ]


def log_tail(job: Job, redact: Redactor) -> str:
    """The end of the job's log without secrets, cut at a line break if possible."""
    data, is_whole = storage_of(job).read_log_end(LOG_READ_BYTES)
    if not is_whole:
        data = data.partition(b"\n")[2] or data
    text: str = redact(data.decode(errors="replace"))
    end = text[-LOG_TAIL_CHARACTERS:]
    return end if len(end) == len(text) else end.partition("\n")[2] or end


# Cleans up after a job: only its redacted log stays on disk. Everything else is in the database.


def clean_up(job: Job, redact: Redactor) -> None:
    """Delete the job's files except its redacted log. Its processes must have ended, its events be stored."""
    storage_of(job).clean_up(redact)
    # The user's input has been removed from the rows, but the write-ahead log may still hold it.
    clear_log()


# Questions: from spool events into rows, and answers from rows to the runner.

# Questions with higher numbers are ignored.
MAX_QUESTIONS = 100_000


def deliver(question: Question) -> None:
    """Write the stored answer for the runner, unless it has been written."""
    storage = storage_of(question.job)
    # The files of a deleted job are gone, and a run may have replaced its folder.
    with suppress(FileNotFoundError, NotADirectoryError):
        if not storage.has_answer(question.number):
            storage.write_answer(question.number, question.answer)
        if not Job.objects.unfinished().filter(pk=question.job_id).exists():
            # The job has ended in the meantime and may have been cleaned up already.
            storage.delete_answer(question.number)


def deliver_missing(job: Job, open_numbers: Collection[int]) -> None:
    """Deliver stored answers to open questions. The process that stored them may have been killed."""
    for question in job.questions.filter(number__in=open_numbers).exclude(answered_at=None):
        deliver(question)


def ingest(job: Job, events: Iterable[SpoolEvent], redact: Redactor, open_numbers: set[int]) -> None:
    """Store the questions in these events. Update ``open_numbers``, the questions that the runner waits for.

    Idempotent, because a new follower reads a spool from the beginning.
    """
    for event in events:
        number = count_of(event["data"].get("number"))
        if not 0 < number <= MAX_QUESTIONS:
            continue
        if event["kind"] == "question":
            open_numbers.add(number)
            _store_question(job, number, event, redact)
        elif event["kind"] in {"answered", "withdrawn"}:
            open_numbers.discard(number)
            _redact_answers(job.questions.filter(number=number), redact)
        if event["kind"] == "withdrawn":
            job.questions.filter(number=number).withdraw()


def redact_answers(job: Job, redact: Redactor) -> None:
    """Redact the stored answers of a job whose runner no longer waits for any."""
    _redact_answers(job.questions.all(), redact)


def _redact_answers(questions: Iterable[Question], redact: Redactor) -> None:
    for question in questions:
        redacted = str(redact(question.answer))
        if redacted != question.answer:
            Question.objects.filter(pk=question.pk).update(answer=redacted)


def _store_question(job: Job, number: int, event: SpoolEvent, redact: Redactor) -> None:
    data = redact(event["data"])
    kind, context = str(data.get("kind")), data.get("context")
    values = {
        "kind": kind if kind in Question.Kind.values else Question.Kind.TEXT_INPUT,
        "prompt": str(data.get("prompt") or ""),
        "context": context if isinstance(context, dict) else {},
        "asked_at": datetime.fromtimestamp(event["at"], UTC),
    }
    Question.objects.get_or_create(job=job, number=number, defaults=values)
