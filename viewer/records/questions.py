"""Answers to the questions of runs."""

from django.contrib.auth.models import AbstractBaseUser

from viewer.engines import engine_of
from viewer.engines.answer_schema import as_text, parse_answer
from viewer.host_requests import DeliverAnswer, Redact, ask
from viewer.models import Question

# Longer answers are cut, because a model reads them.
MAX_ANSWER_CHARACTERS = 100_000


def answer(question: Question, text: str, person: AbstractBaseUser | None) -> bool:
    """Answer the question, so that its run continues.

    The first answer wins: returns False if it has been answered, or if its run has ended. Raises
    AnswerInvalid if the answer does not fit the schema that the question gives.
    """
    text = text[:MAX_ANSWER_CHARACTERS]
    if question.kind == Question.Kind.INTERRUPT:
        asked = engine_of(question.job.location).asked_question(question.prompt, question.context)
        if asked and asked.schema:
            text = as_text(parse_answer(text, asked.schema))
    if not question.record_answer(text, person):
        return False
    ask(DeliverAnswer(question.pk))
    return True


def redacted_answer(question: Question) -> str:
    """The answer without secrets, among them those of its project's environment file."""
    return str(ask(Redact(question.job.project_id, [question.answer]))[0])
