"""Starts a fork or resume from the terminal, and tells what became of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.base import CommandParser
from django.utils.translation import gettext as _

from viewer.contents import contents_of
from viewer.forms.draft import branches_of
from viewer.forms.promise import units_of
from viewer.importing import stored_body
from viewer.jobs.branch import BranchRefused, checked_branch, proposed_branch
from viewer.jobs.launch import JobRefused
from viewer.jobs.plan import EditRefused, Step, plain_steps, plan_of
from viewer.jobs.request import request_for
from viewer.jobs.start import run_here, start_job
from viewer.models import Checkpoint, Job
from viewer.terminal.answer import Answer
from viewer.terminal.edits import add_edit_arguments, edits_of
from viewer.terminal.finding import checkpoint_at
from viewer.terminal.projects import add_project_arguments, entry_point_of, project_for
from viewer.terminal.rows import checkpoint_document
from viewer.wording import step_words, told


def add_run_arguments(parser: CommandParser) -> None:
    """Declare what ``fork`` and ``resume`` have in common."""
    parser.add_argument("checkpoint", metavar="LOCATION#ID", help=_("A checkpoint, or its file."))
    add_edit_arguments(parser)
    add_project_arguments(parser)
    parser.add_argument(
        "--wait", action="store_true", help=_("Wait for its end, and run it where no worker is.")
    )


def started(kind: Job.Kind, options: Mapping[str, Any]) -> Answer:
    """The job, and its outcome where it was waited for. Raises CommandError for senseless arguments."""
    checkpoint = checkpoint_at(options["checkpoint"])
    branch = checkpoint.branch
    steps: list[Step] = []
    try:
        if kind == Job.Kind.FORK:
            branch = options["branch"] or proposed_branch(checkpoint.checkpoint_id)
            checked_branch(branch, branches_of(checkpoint))
        contents = contents_of(stored_body(checkpoint))
        edits = edits_of(options, contents)
        steps = plan_of(contents.kind, units_of(contents), edits)
        project = project_for(checkpoint.location, options)
        entry_point = entry_point_of(project, contents, options["entrypoint"])
        request = request_for(checkpoint, kind, branch, edits, steps, entry_point)
        job = start_job(checkpoint, project, kind, branch, request, plain_steps(steps))
    except (EditRefused, BranchRefused) as refused:
        return _refused(branch, steps, told(refused))
    except JobRefused as refused:
        return _refused(branch, steps, str(refused))
    if options["wait"]:
        _wait(job)
    return _answer(job, steps)


def _wait(job: Job) -> None:
    """Until it has ended; Ctrl-C has cancelled it by then, which its status tells."""
    try:
        run_here(job)
    except KeyboardInterrupt:
        pass
    finally:
        job.refresh_from_db()


def _refused(branch: str, steps: Sequence[Step], reason: str) -> Answer:
    document = {
        "job": None,
        "status": "refused",
        "branch": branch,
        "checkpoints": [],
        "result": "",
        "error": reason,
        "plan": plain_steps(steps),
    }
    return Answer(document, reason, status=1)


def _answer(job: Job, steps: Sequence[Step]) -> Answer:
    ids = list(job.events.filter(kind="checkpoint").order_by("seq").values_list("data__id", flat=True))
    rows = {
        row.checkpoint_id: row
        for row in Checkpoint.objects.filter(location=job.location, checkpoint_id__in=ids)
    }
    document = {
        "job": str(job.pk),
        "status": job.status,
        "branch": job.branch,
        "checkpoints": [checkpoint_document(rows[one]) for one in ids if one in rows],
        "result": job.result,
        "error": job.error,
        "plan": plain_steps(steps),
    }
    lines = [
        *(step_words(step) for step in steps),
        "",
        f"{job.get_status_display()}: {job.branch} ({job.pk})",
    ]
    is_good = job.status == Job.Status.SUCCEEDED or not job.has_ended
    return Answer(document, "\n".join([*lines, job.result or job.error]).rstrip(), status=0 if is_good else 1)
