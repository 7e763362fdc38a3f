"""Takes a queued job and starts its child, which then lives on its own."""

import json
import os
import subprocess
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext as _

from viewer.jobs import locks
from viewer.jobs.environment import environment_of
from viewer.jobs.request import request_of
from viewer.jobs.spool import LOCK, LOG, REQUEST
from viewer.models import Job, Project

Child = subprocess.Popen[bytes]
# Every location is CrewAI's so far.
ENGINE = "crewai"


class JobRefused(Exception):
    """A job cannot be started. Its message tells why, and what to do."""


def launch(job: Job) -> Child | None:
    """Claim the job and start its child. None where another has it, it was cancelled, or it cannot start.

    A job that cannot start fails with the reason: it has cost nothing, and a person may start another.
    Callers hold the job's follower lock.
    """
    if not job.claim():
        return None
    try:
        project = runnable(job.project)
        prepare_folder(job)
        return start_child(job, project)
    except (JobRefused, OSError) as error:
        job.end(Job.Status.FAILED, error=str(error))
        return None


def runnable(project: Project | None) -> Project:
    """The project, fit to run programs in. Raises JobRefused."""
    if project is None:
        raise JobRefused(_("This location has no project yet. Name its folder and interpreter first."))
    if not project.is_confirmed:
        message = _(
            "Nobody has confirmed yet that programs of “%(name)s” may run. Confirm the project first."
        )
        raise JobRefused(message % {"name": project.name})
    if not Path(project.folder).is_dir():
        raise JobRefused(_("The project's folder is not there: %(path)s.") % {"path": project.folder})
    interpreter = Path(project.interpreter)
    if not (interpreter.is_absolute() and interpreter.is_file() and os.access(interpreter, os.X_OK)):
        message = _(
            "The project's interpreter is not there: %(path)s. Set up its environment, or name another."
        )
        raise JobRefused(message % {"path": project.interpreter})
    if project.environment_file and not Path(project.environment_file).is_file():
        raise JobRefused(
            _("The project's environment file is not there: %(path)s.") % {"path": project.environment_file}
        )
    return project


def prepare_folder(job: Job) -> None:
    """Write what the child is asked to do, for its owner's eyes alone."""
    make_folder(job)
    descriptor = os.open(job.folder / REQUEST, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(request_of(job), file)


def make_folder(job: Job) -> None:
    """The job's folder, for its owner's eyes alone."""
    job.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    job.folder.mkdir(exist_ok=True, mode=0o700)


def start_child(job: Job, project: Project) -> Child:
    """Start it in a session of its own, holding the job's lock. Raises JobRefused, or OSError.

    It starts in the project's folder, as the project's own run does: crews read their knowledge, write
    their files and find their memory relative to it, so that elsewhere a fork would not do what the run did.
    """
    lock = locks.take(job.folder / LOCK)
    if lock is None:
        raise JobRefused(_("A child of this job is already there."))
    log = os.open(job.folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        child = subprocess.Popen(
            [project.interpreter, str(settings.JOB_RUNNERS[ENGINE]), str(job.folder)],
            cwd=project.folder,
            env=environment_of(job, project),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(lock,),
        )
    finally:
        os.close(log)
        os.close(lock)
    job.note_process(child.pid)
    return child
