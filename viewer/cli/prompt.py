"""Asks a run's questions at the terminal that waits for it, or says where to answer them."""

import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import connection
from django.utils.translation import gettext as _

from viewer.cli.output import one_line, plain
from viewer.jobs.human_input.questions import answer
from viewer.models import Question

POLL_SECONDS = 0.2
# Fields of a question that are shown with its prompt.
ABOUT = ("task", "method", "agent")


@contextmanager
def questions_asked(job: UUID) -> Iterator[None]:
    """Ask this job's questions while the body runs. Nothing is written to stdout.

    Without a terminal to read from, stderr says where each question can be answered.
    """
    left = threading.Event()
    thread = threading.Thread(target=_keep_asking, args=(job, left), daemon=True)
    thread.start()
    try:
        yield
    finally:
        left.set()
        thread.join()


def _keep_asking(job: UUID, left: threading.Event) -> None:
    announced: set[int] = set()
    reads = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    try:
        while not left.wait(POLL_SECONDS):
            waiting = Question.objects.waiting().filter(job=job).exclude(number__in=announced)
            question = waiting.order_by("number").first()
            if question is not None:
                announced.add(question.number)
                _tell(question)
                if reads:
                    _read(question, left)
                else:
                    _say(where_to_answer(question))
    finally:
        connection.close()


def _tell(question: Question) -> None:
    about = [str(question.context[name]) for name in ABOUT if question.context.get(name)]
    output = str(question.context.get("output") or "")
    for part in (one_line(", ".join(about)), output, question.prompt):
        if part:
            _say(f"\n{part}")
    if question.choices:
        _say(_("Outcomes: %(choices)s") % {"choices": one_line(", ".join(question.choices))})


def _read(question: Question, left: threading.Event) -> None:
    """Read one line as the answer, unless it is answered elsewhere in the meantime."""
    if question.kind == Question.Kind.HUMAN_INPUT:
        _say(_("What should be improved? An empty line accepts the output."))
    sys.stderr.write("> ")
    sys.stderr.flush()
    while not left.is_set():
        if select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
            line = sys.stdin.readline()
            if not line:
                _say("\n" + where_to_answer(question))
            elif not answer(question, line.strip(), None):
                _say(_("Your answer was not used: the question was already answered."))
            return
        question.refresh_from_db()
        if not question.is_waiting:
            answered = _("It was answered elsewhere.")
            _say("\n" + (answered if question.answered_at else _("The run no longer waits for it.")))
            return


def where_to_answer(question: Question) -> str:
    """A sentence on how to answer a pending question."""
    text = _("Waiting for an answer, in the browser or with checkpoints answer %(job)s %(number)s --text …")
    return text % {"job": question.job_id, "number": question.number}


def _say(text: str) -> None:
    sys.stderr.write(plain(text) + "\n")
    sys.stderr.flush()
