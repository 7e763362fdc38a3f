"""Waiting for a job at the terminal: running it here, and asking its questions."""

import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.utils.translation import gettext as _

from viewer.cli import lines_of, plain
from viewer.data_folder.failures import DataFolderFailure, folder_fault
from viewer.engines.answer_schema import AnswerInvalid
from viewer.host.jobs.following import ensure_finished, never
from viewer.host_requests import ReadWorkers, ask
from viewer.launching.start import request_cancel, send_answer
from viewer.messages.translation import translate
from viewer.models import Job, JobEvent, Question
from viewer.presentation.jobs.events import NOT_SHOWN, row_of
from viewer.records.hosts import is_here
from viewer.records.limits import reached_shared_limit
from viewer.records.permissions import may_start
from viewer.validation import one_line

# Waits for a job at the terminal. Without a worker, this process runs the job itself.


POLL_SECONDS = 0.1


def run_here(job: Job, leaves: Callable[[], bool] = never) -> None:
    """Wait until the job has ended. A worker runs it, or this process if no worker of its host is up here.

    Returns early if it asks a question and ``leaves`` is true, or if it will not start: it missed its start
    time, it waits for an admin, or its sweep has used up a limit. Raises DataFolderFailure if the disk has no
    space for it. Ctrl-C cancels the job. The KeyboardInterrupt is raised once the job has ended.
    """
    interrupted: KeyboardInterrupt | None = None
    while not (_has_stopped(job) or (leaves() and is_asking(job))):
        try:
            if is_here(job.runs_on.pk) and not ask(ReadWorkers()).is_up:
                if job.status == Job.Status.QUEUED and (fault := folder_fault()):
                    raise DataFolderFailure(translate(fault))
                Job.objects.filter(pk=job.pk).mark_due()
                ensure_finished(job, leaves)
            job.refresh_from_db()
            if not job.has_ended:
                # Another process runs it.
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt as error:
            interrupted = error
            request_cancel(job)
    if interrupted:
        raise interrupted


def is_over(job: Job) -> bool:
    """Whether a command need not wait for it: it has ended, it asks, or it will not start."""
    return _has_stopped(job) or is_asking(job)


def _has_stopped(job: Job) -> bool:
    return job.has_ended or job.is_missed or _is_held(job)


def is_asking(job: Job) -> bool:
    """Whether a question of the job waits for an answer."""
    return not job.has_ended and job.questions.waiting().exists()


def _is_held(job: Job) -> bool:
    """Whether it waits for an admin, or a limit of its sweep is used up: the usage never decreases."""
    if job.status != Job.Status.QUEUED:
        return False
    if not may_start(job):
        return True
    if job.sweep_id is None:
        return False
    limit = reached_shared_limit(job)
    return limit is not None and limit.whose == "sweep"


# Asks a run's questions at the terminal that waits for it, or says where to answer them.


STDIN_POLL_SECONDS = 0.2
# Fields of a question that are shown with its prompt.
ABOUT = ("task", "method", "agent")


@contextmanager
def questions_asked(job: Job, *, prints_events: bool = False) -> Iterator[Callable[[], bool]]:
    """Ask this job's questions while the body runs, and print its events. Nothing is written to stdout.

    Yields whether nobody can answer here: there is no terminal to read from, or it was closed.
    """
    left, closed = threading.Event(), threading.Event()
    if not can_ask():
        closed.set()
        if not prints_events:
            yield closed.is_set
            return
    thread = threading.Thread(target=_keep_asking, args=(job, left, closed, prints_events), daemon=True)
    thread.start()
    try:
        yield closed.is_set
    finally:
        left.set()
        thread.join()


def can_ask() -> bool:
    """Whether somebody can read questions here and type answers."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _keep_asking(job: Job, left: threading.Event, closed: threading.Event, prints_events: bool) -> None:
    announced: set[int] = set()
    seq = 0
    try:
        while prints_events or not closed.is_set():
            has_ended = left.wait(STDIN_POLL_SECONDS)
            if prints_events:
                seq = _print_events(job, seq)
            if has_ended:
                return
            if closed.is_set():
                continue
            waiting = Question.objects.waiting().filter(job=job).exclude(number__in=announced)
            question = waiting.order_by("number").first()
            if question is not None:
                announced.add(question.number)
                say(f"\n{question_text(question)}")
                if not _read(question, left):
                    closed.set()
    finally:
        connection.close()


def question_document(question: Question) -> dict[str, Any]:
    """A question as JSON."""
    return {
        "job": str(question.job_id),
        "number": question.number,
        "kind": question.kind,
        "prompt": question.prompt,
        "context": question.context,
        "asked_at": question.asked_at.isoformat(),
    }


def question_text(question: Question) -> str:
    """What the question is about, what it shows, its text, and its possible outcomes."""
    about = [str(question.context[name]) for name in ABOUT if question.context.get(name)]
    output = str(question.context.get("output") or "")
    shown = output if output.strip() != question.prompt.strip() else ""
    parts = [one_line(", ".join(about)), shown, question.prompt]
    if question.choices:
        is_call = question.kind == Question.Kind.TOOL_CALL
        if is_call and question.context.get("is_repeated"):
            parts.append(
                _("The forked run already called this tool. Calling it again may repeat its effects.")
            )
        text = _("Outcomes: %(choices)s")
        if is_call:
            text = _("Answer with %(choices)s, or with the arguments as a JSON object.")
        parts.append(text % {"choices": one_line(", ".join(question.choices))})
    if schema := question.context.get("schema"):
        parts.append(_("Schema of the answer: %(schema)s") % {"schema": one_line(str(schema))})
    return "\n".join(part for part in parts if part)


def _read(question: Question, left: threading.Event) -> bool:
    """Read one line as the answer, unless it is answered elsewhere in the meantime.

    Returns False if the terminal was closed.
    """
    prompt_for(question)
    while not left.is_set():
        if select.select([sys.stdin], [], [], STDIN_POLL_SECONDS)[0]:
            line = typed_line()
            if line is None:
                prompt_for(question)
                continue
            try:
                if line and not send_answer(question, line.strip(), None):
                    say(_("Your answer was not used: the question was already answered."))
            except AnswerInvalid as invalid:
                say(translate(invalid))
                prompt_for(question)
                continue
            return bool(line)
        question.refresh_from_db()
        if not question.is_waiting:
            answered = _("It was answered elsewhere.")
            say("\n" + (answered if question.answered_at else _("The run no longer waits for it.")))
            return True
    return True


def prompt_for(question: Question) -> None:
    """Show on stderr that a line is expected."""
    if question.kind == Question.Kind.HUMAN_INPUT:
        say(_("What should be improved? An empty line accepts the output."))
    sys.stderr.write("> ")
    sys.stderr.flush()


def typed_line() -> str | None:
    """The next line that is typed, empty at the end; None for one that is not UTF-8, which is reported."""
    try:
        return sys.stdin.readline()
    except UnicodeDecodeError as error:
        say(_("The standard input cannot be read: %s") % error.reason)
        return None


def _print_events(job: Job, after: int) -> int:
    """Print the events after this number on stderr. Return the number of the last one."""
    for event in job.events.filter(seq__gt=after).order_by("seq"):
        after = event.seq
        if document := event_document(event):
            say(event_line(job.branch, document))
    return after


def event_line(branch: str, document: Mapping[str, Any]) -> str:
    """What a job did on a branch, as one line. Documents have times in UTC."""
    moment, text = f"{str(document.get('at'))[11:19]} UTC", str(document.get("text"))
    agent = f"  ({document['agent']})" if document.get("agent") else ""
    return one_line(f"{moment}  {branch}  {text}{agent}")


def event_document(event: JobEvent) -> dict[str, Any] | None:
    """What a job did, as its page shows it; None for what the page shows elsewhere."""
    if event.kind in NOT_SHOWN or event.kind == "text":
        return None
    row = row_of(event)
    return {
        "seq": row.seq,
        "at": event.at.isoformat(),
        "kind": row.kind,
        "text": row.text,
        "agent": row.agent or None,
    }


def waiting_lines(questions: Sequence[Question]) -> Iterator[str]:
    """Each pending question, and the command that answers it."""
    for question in questions:
        yield from ["", *lines_of(question_text(question)), _("Answer it in the browser, or with:")]
        yield f"  {answer_command(question)}"


def waiting_questions(job: Job) -> list[Question]:
    """The questions of a job that nobody has answered."""
    return list(job.questions.waiting().order_by("number"))


def pending_document(question: Question) -> dict[str, Any]:
    """A pending question as JSON, with the command that answers it."""
    return {**question_document(question), "command": answer_command(question)}


def answer_command(question: Question) -> str:
    """The command that answers a question and waits for the run."""
    return f"forkline answer {question.job_id} {question.number} --wait --text …"


def say(text: str) -> None:
    """Print a text of several lines on stderr."""
    sys.stderr.write(plain(text) + "\n")
    sys.stderr.flush()
