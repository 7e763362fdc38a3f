"""``forkline answer`` and ``cancel``: jobs that run or wait."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import typed_text
from viewer.cli.output import Output, Subcommand
from viewer.cli.parsing import JOB, NUMBER_FROM_ONE, TYPED_TEXT
from viewer.cli.running import question_document, run_here
from viewer.cli.starting import add_wait_argument, outcome_of
from viewer.engines.answer_schema import AnswerInvalid
from viewer.launching.start import request_cancel
from viewer.messages.translation import translate
from viewer.models import Job, Question
from viewer.presentation.jobs.status import status_label
from viewer.records import questions
from viewer.records.audit import present_actor

# ``manage.py checkpoints answer``: lists pending questions, or answers one.


def _add_answer_arguments(parser: CommandParser) -> None:
    parser.add_argument("job", type=JOB, nargs="?", metavar="JOB", help=_("A job's id, or its beginning."))
    parser.add_argument(
        "number",
        nargs="?",
        type=NUMBER_FROM_ONE,
        metavar="NUMBER",
        help=_("The number of the question, if several are pending."),
    )
    add_wait_argument(parser)
    parser.add_argument(
        "--text", type=TYPED_TEXT, help=_("The answer. Empty accepts the output; - reads stdin.")
    )


def _handle_answer(options: Mapping[str, Any]) -> Output:
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
    output = given(found[0], typed_text(options["text"]))
    if not options["wait"] or output.status:
        return output
    outcome = outcome_of(found[0].job, [], options["wait"])
    return Output({**output.document, **outcome.document}, [*output.lines, *outcome.lines], outcome.status)


def given(question: Question, text: str) -> Output:
    """Whether the answer was used; the first answer wins. Raises CommandError if it does not fit."""
    try:
        is_first = questions.answer(question, text.strip(), present_actor().user)
    except AnswerInvalid as invalid:
        raise CommandError(translate(invalid)) from invalid
    outcome = _("Answered. The run continues.") if is_first else _("The question was already answered.")
    document = {
        **question_document(question),
        "answered": is_first,
        "answer": questions.redacted_answer(question),
    }
    return Output(document, [outcome], 0 if is_first else 1, jobs=[question.job_id] if is_first else [])


def listed(waiting: list[Question]) -> Output:
    """The pending questions, the oldest first."""
    lines = [f"{one.job_id} {one.number}  {' '.join(one.prompt.split())}" for one in waiting]
    document = {"questions": [question_document(one) for one in waiting]}
    return Output(document, lines or [_("No pending questions.")])


ANSWER = Subcommand(
    gettext_lazy("Answer a run's question. Without a job, list the pending questions."),
    _add_answer_arguments,
    _handle_answer,
)


# ``manage.py checkpoints cancel``.


# Jobs that a message names.
MAX_NAMED = 5


def _add_cancel_arguments(parser: CommandParser) -> None:
    parser.add_argument("job", type=JOB, metavar="JOB", help=_("A job's id, or its beginning."))
    parser.add_argument("--wait", action="store_true", help=_("Wait until its processes have ended."))


def _handle_cancel(options: Mapping[str, Any]) -> Output:
    """The job, and whether this cancelled it. Raises CommandError if no job, or several, are named."""
    return cancelled(job_named(options["job"]), waits=options["wait"])


def cancelled(job: Job, *, waits: bool = False) -> Output:
    """The job, and whether this cancelled it."""
    is_cancelled = request_cancel(job)
    if waits and not job.has_ended:
        # It has been started: without a worker, this process follows it to its end.
        run_here(job)
    if is_cancelled:
        line = _("Cancelled.") if job.has_ended else _("Cancelling: its processes are being stopped.")
    elif job.has_ended:
        line = _("Nothing to cancel: the job has ended (%(status)s).") % {"status": status_label(job)}
    else:
        line = _("The job is already being cancelled.")
    document = {"job": str(job.pk), "status": job.status, "cancelled": is_cancelled}
    return Output(document, [f"{job.branch} ({job.pk}): {line}"], status=int(not is_cancelled))


def job_named(text: str) -> Job:
    """The only job whose id begins with this text. Raises CommandError."""
    found = Job.objects.select_related("location").begins_with(text)
    jobs = list(found.order_by("-created_at")[: MAX_NAMED + 1])
    if not jobs:
        raise CommandError(_("There is no job %s.") % text)
    if len(jobs) > 1:
        several = ", ".join(str(job.pk) for job in jobs[:MAX_NAMED])
        raise CommandError(
            _("Several jobs begin with %(text)s: %(several)s. Enter a complete id.")
            % {"text": text, "several": several}
        )
    return jobs[0]


CANCEL = Subcommand(
    gettext_lazy("Cancel a job. One that waits never starts; one that runs is stopped with its processes."),
    _add_cancel_arguments,
    _handle_cancel,
)
