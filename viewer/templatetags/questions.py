"""What pages say of questions."""

from django import template
from django.utils.translation import gettext as _

from viewer.jobs.human_input.questions import redacted_answer
from viewer.models import Question

register = template.Library()


@register.simple_tag
def questions_waiting() -> int:
    """How many wait for an answer."""
    return Question.objects.waiting().count()


register.filter("answer_shown", redacted_answer)


@register.filter
def asker(question: Question) -> str:
    """Who asks, in a few words: a task with its agent, or a flow's method."""
    about = question.context
    words = ""
    if about.get("position"):
        words = _("Task %(position)s") % {"position": about["position"]}
    elif about.get("method"):
        words = _("The step %(method)s") % {"method": about["method"]}
    agent = str(about.get("agent") or "")
    return f"{words}, {agent}" if words and agent else words or agent or _("The run")


@register.filter
def wish(question: Question) -> str:
    """What is wanted of the person who answers, as a sentence."""
    if question.kind == Question.Kind.HUMAN_INPUT:
        return _("Look over what came out. Say what should be better, and it is done again; or accept it.")
    if question.kind == Question.Kind.FLOW_INPUT:
        return _("The run asks for your words.")
    if question.kind == Question.Kind.PROGRAM_INPUT:
        return _("The project's program waits for a line of input, as it would in a terminal.")
    if question.choices:
        return _("Choose how it goes on, or say it in your own words: then a model picks the outcome.")
    return _("Say what you think of it. What you say is handed to the next step.")


@register.filter
def meaning_of_nothing(question: Question) -> str:
    """What an empty answer does, as the words of its button."""
    if question.kind == Question.Kind.HUMAN_INPUT:
        return _("Accept as it is")
    if question.kind == Question.Kind.PROGRAM_INPUT:
        return _("Send an empty line")
    outcome = str(question.context.get("empty_means") or "")
    if outcome:
        return _("Say nothing, which means “%(outcome)s”") % {"outcome": outcome}
    return _("Say nothing")
