"""Questions: from spool events into rows, and answers from rows to the runner."""

from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from viewer.host.jobs.events import Redactor
from viewer.host.jobs.files import storage_of
from viewer.host.jobs.spool import SpoolEvent
from viewer.models import Job, Question
from viewer.records.limits import positive_integer

# Questions with higher numbers are ignored.
MAX_QUESTIONS = 100_000


def deliver(question: Question) -> None:
    """Write the stored answer for the runner, unless it has been written."""
    storage = storage_of(question.job)
    # The files of a deleted job are gone.
    with suppress(FileNotFoundError):
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
        number = positive_integer(event["data"].get("number"))
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
