"""``manage.py checkpoints cancel``."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from viewer.cli.edits import JOB
from viewer.cli.output import Output
from viewer.cli.running import run_here
from viewer.launching.enqueue import request_cancel
from viewer.models import Job
from viewer.presentation.jobs.status import status_label

HELP = gettext_lazy("Cancel a job. One that waits never starts; one that runs is stopped with its processes.")
# Jobs that a message names.
MAX_NAMED = 5


def add_arguments(parser: CommandParser) -> None:
    parser.add_argument("job", type=JOB, metavar="JOB", help=_("A job's id, or its beginning."))
    parser.add_argument("--wait", action="store_true", help=_("Wait until its processes have ended."))


def handle(options: Mapping[str, Any]) -> Output:
    """The job, and whether this cancelled it. Raises CommandError if no job, or several, are named."""
    job = job_named(options["job"])
    is_cancelled = request_cancel(job)
    if options["wait"] and not job.has_ended:
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
    found = Job.objects.select_related("location").filter(pk__startswith=text.lower())
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
