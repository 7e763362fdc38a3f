"""Answers to the questions of runs."""

import json

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from viewer.engines import engine_of
from viewer.engines.answer_schema import AnswerInvalid, as_text, parse_answer
from viewer.host_requests import DeliverAnswer, Redact, ask
from viewer.models import Question
from viewer.records.audit import Action, Audited, record
from viewer.redaction import MARKER

# Longer answers are cut, because a model reads them.
MAX_ANSWER_CHARACTERS = 100_000


def answer(question: Question, text: str, person: AbstractBaseUser | None) -> bool:
    """Answer the question, so that its run continues.

    The first answer wins: returns False if it has been answered, or if its run has ended. Raises
    AnswerInvalid if the answer does not fit the schema that the question gives, or is none for a tool's call.
    """
    text = text[:MAX_ANSWER_CHARACTERS]
    if question.kind == Question.Kind.INTERRUPT:
        asked = engine_of(question.job.location).asked_question(question.prompt, question.context)
        if asked and asked.schema:
            text = as_text(parse_answer(text, asked.schema))
    if question.kind == Question.Kind.TOOL_CALL:
        text = _tool_answer(text, question)
    with transaction.atomic():
        if not question.record_answer(text, person):
            return False
        record(Action.ANSWERED, Audited.QUESTION, f"{question.job_id}/{question.number}")
    ask(DeliverAnswer(question.pk))
    return True


def redacted_answer(question: Question) -> str:
    """The answer without secrets, among them those of its project's environment file."""
    return str(ask(Redact(question.job.project_id, [question.answer]))[0])


def _tool_answer(text: str, question: Question) -> str:
    """One of the question's choices, or the arguments to call the tool with. Raises AnswerInvalid."""
    if (text := text.strip()) in question.choices:
        return text
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise AnswerInvalid("answer.tool_call", choices=", ".join(question.choices))
    if MARKER in text:
        raise AnswerInvalid("answer.hidden_argument", marker=MARKER)
    return text
