"""Tags and filters for the questions that runs ask."""

from django import template
from django.utils.translation import gettext as _

from viewer.launching.labels import asker_label
from viewer.models import Job, Question
from viewer.records.questions import redacted_answer
from viewer.web.launch.answers import AnswersPart, asked_part

register = template.Library()


@register.simple_tag
def questions_waiting() -> int:
    """Return the number of questions that wait for an answer."""
    return Question.objects.waiting().count()


register.filter("answer_shown", redacted_answer)


@register.filter
def html_mark(question: Question) -> str:
    """Return what distinguishes the question's element ids: the job's id and the question's number."""
    return f"{question.job_id}-{question.number}"


@register.filter
def asker(question: Question) -> str:
    """Return who asks."""
    return asker_label(question.context)


@register.simple_tag
def suggested_answers(question: Question, sent: AnswersPart | None) -> AnswersPart | None:
    """Return the form of the answers that the question suggests, or the one that was sent.

    None if its engine suggests none.
    """
    return sent or asked_part(question)


@register.filter
def answer_effect(question: Question) -> str:
    """Return what an answer continues, as a sentence."""
    if question.job.kind == Job.Kind.FORK:
        return _("Your answer continues this fork only. The original still waits and can be answered.")
    return _("Your answer continues the run itself.")


@register.filter
def answer_hint(question: Question) -> str:
    """Return what the person who answers should do, as a sentence."""
    if question.kind == Question.Kind.HUMAN_INPUT:
        return _("Review the output. Describe what to improve to have it redone, or accept it.")
    if question.kind == Question.Kind.TEXT_INPUT:
        return _("The run asks for text input.")
    if question.kind == Question.Kind.PROGRAM_INPUT:
        return _("The program waits for a line of input, as in a terminal.")
    if question.choices:
        return _("Choose an outcome, or write feedback and a model chooses the outcome.")
    return _("Write feedback. It is passed to the next step.")


@register.filter
def empty_answer_label(question: Question) -> str:
    """Return the label of the button that sends an empty answer."""
    if question.kind == Question.Kind.HUMAN_INPUT:
        return _("Accept")
    if question.kind == Question.Kind.PROGRAM_INPUT:
        return _("Send an empty line")
    if question.kind == Question.Kind.TEXT_INPUT:
        return _("Send an empty answer")
    outcome = str(question.context.get("empty_means") or "")
    if outcome:
        return _("No feedback (“%(outcome)s”)") % {"outcome": outcome}
    return _("No feedback")
