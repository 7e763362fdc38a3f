"""A job's questions: from its spool into rows, and the answers from rows into its folder."""

import json
import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from django.contrib.auth.models import AbstractBaseUser

from viewer.jobs.event_values import positive_integer
from viewer.jobs.execution.event_rows import Redactor, redactor_for
from viewer.jobs.spool import SpoolEvent, answer_name
from viewer.models import Job, Question

# An answer is read by a model: more than this is no answer.
MAX_ANSWER_CHARACTERS = 100_000
# Nobody answers more than this.
MAX_QUESTIONS = 100_000


def answer(question: Question, text: str, person: AbstractBaseUser | None) -> bool:
    """Answer it, and let its run go on. False where it was answered before, or its run has ended."""
    if not question.take_answer(text[:MAX_ANSWER_CHARACTERS], person):
        return False
    deliver(question)
    return True


def deliver(question: Question) -> None:
    """Write the kept answer where the child waits for it, whole and for its owner's eyes; once is enough."""
    folder = question.job.folder
    path = folder / answer_name(question.number)
    # A job that is deleted leaves no folder to be sure of.
    with suppress(FileNotFoundError):
        if not path.exists():
            _write_whole(path, json.dumps({"text": question.answer}))
    if not Job.objects.unfinished().filter(pk=question.job_id).exists():
        # It ended meanwhile, and what it left may have been tidied up already.
        path.unlink(missing_ok=True)


def _write_whole(path: Path, text: str) -> None:
    half = path.with_name(f"{path.name}.{uuid4().hex}")
    descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    half.rename(path)


def ingest(job: Job, lines: Iterable[SpoolEvent], hide: Redactor, open_numbers: set[int]) -> None:
    """Make rows of what these lines ask, and keep ``open_numbers`` at what the child still waits for.

    The same lines may come again, as a new follower reads a spool from its beginning.
    """
    for line in lines:
        number = positive_integer(line["data"].get("number"))
        if not 0 < number <= MAX_QUESTIONS:
            continue
        if line["kind"] == "question":
            open_numbers.add(number)
            _store_question(job, number, line, hide)
        elif line["kind"] in {"answered", "withdrawn"}:
            open_numbers.discard(number)
            _redact_answers(job.questions.filter(number=number), hide)
        if line["kind"] == "withdrawn":
            job.questions.filter(number=number).withdraw()


def redacted_answer(question: Question) -> str:
    """The answer as it may be shown: a person may have pasted a key into it."""
    return str(redactor_for(question.job)(question.answer))


def redact_answers(job: Job, hide: Redactor) -> None:
    """Keep of the answers only what may be shown: nobody waits for them any more."""
    _redact_answers(job.questions.all(), hide)


def _redact_answers(questions: Iterable[Question], hide: Redactor) -> None:
    for question in questions:
        shown = str(hide(question.answer))
        if shown != question.answer:
            Question.objects.filter(pk=question.pk).update(answer=shown)


def _store_question(job: Job, number: int, line: SpoolEvent, hide: Redactor) -> None:
    data = hide(line["data"])
    kind, context = str(data.get("kind")), data.get("context")
    values = {
        "kind": kind if kind in Question.Kind.values else Question.Kind.FLOW_INPUT,
        "prompt": str(data.get("prompt") or ""),
        "context": context if isinstance(context, dict) else {},
        "asked_at": datetime.fromtimestamp(line["at"], UTC),
    }
    Question.objects.get_or_create(job=job, number=number, defaults=values)


def deliver_missing(job: Job, open_numbers: Collection[int]) -> None:
    """Hand over the answers that were kept, and not handed over: who kept them has died in between."""
    for question in job.questions.filter(number__in=open_numbers).exclude(answered_at=None):
        deliver(question)
