"""``manage.py checkpoints answer``: lists pending questions, or answers one."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import JOB, NUMBER_FROM_ONE, read_stdin
from viewer.cli.output import Output
from viewer.cli.prompt import question_document
from viewer.cli.starting import add_wait_argument, outcome_of
from viewer.engines.answer_schema import AnswerInvalid
from viewer.messages.translation import translate
from viewer.models import Question
from viewer.records import questions
from viewer.validation import TEXT

HELP = gettext_lazy("Answer a run's question. Without a job, list the pending questions.")


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("job", type=JOB, nargs="?", metavar="JOB", help=_("A job's id, or its beginning."))
    parser.add_argument(
        "number",
        nargs="?",
        type=NUMBER_FROM_ONE,
        metavar="NUMBER",
        help=_("The number of the question, if several are pending."),
    )
    add_wait_argument(parser)
    parser.add_argument("--text", type=TEXT, help=_("The answer. Empty accepts the output; - reads stdin."))


def handle(options: Mapping[str, Any]) -> Output:
    waiting = Question.objects.waiting().select_related("job").order_by("asked_at", "pk")
    if options["job"] is None:
        return listed(list(waiting))
    found = [one for one in waiting if str(one.job_id).startswith(options["job"])]
    if options["number"] is not None:
        found = [one for one in found if one.number == options["number"]]
    if not found and options["job"] is not None:
        raise CommandError(_("There is no such pending question."))
    if options["text"] is None:
        return listed(found)
    if len(found) > 1:
        several = ", ".join(f"{one.job_id} {one.number}" for one in found)
        raise CommandError(
            _("Several questions are pending: %(several)s. Name one of them.") % {"several": several}
        )
    output = given(found[0], read_stdin() if options["text"] == "-" else options["text"])
    if not options["wait"] or output.status:
        return output
    outcome = outcome_of(found[0].job, [], waits=True)
    return Output({**output.document, **outcome.document}, [*output.lines, *outcome.lines], outcome.status)


def given(question: Question, text: str) -> Output:
    """Whether the answer was used; the first answer wins. Raises CommandError if it does not fit."""
    try:
        is_first = questions.answer(question, text.strip(), None)
    except AnswerInvalid as invalid:
        raise CommandError(translate(invalid)) from invalid
    outcome = _("Answered. The run continues.") if is_first else _("The question was already answered.")
    document = {
        **question_document(question),
        "answered": is_first,
        "answer": questions.redacted_answer(question),
    }
    return Output(document, [outcome], status=0 if is_first else 1)


def listed(waiting: list[Question]) -> Output:
    """The pending questions, the oldest first."""
    lines = [f"{one.job_id} {one.number}  {' '.join(one.prompt.split())}" for one in waiting]
    document = {"questions": [question_document(one) for one in waiting]}
    return Output(document, lines or [_("No pending questions.")])
