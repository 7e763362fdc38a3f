"""Takes a queued job and starts its child, which then lives on its own."""

import json
import os
import subprocess
from pathlib import Path

from django.conf import settings

from viewer.engines import engine_name
from viewer.importing import stored_bytes
from viewer.jobs import locks
from viewer.jobs.execution.clean_up import clean_up
from viewer.jobs.execution.engine_runner import engine_of_project, runner_program
from viewer.jobs.execution.environment import file_values, runner_environment
from viewer.jobs.execution.event_rows import redactor_for
from viewer.jobs.execution.protected_paths import conflict_of
from viewer.jobs.execution.request import is_stored, request_of
from viewer.jobs.execution.runner_process import RunnerProcess
from viewer.jobs.prewarm import client
from viewer.jobs.spool import LOCK, LOG, REQUEST, STORED
from viewer.messages.message import Worded, Words
from viewer.messages.message import gettext_noop as _
from viewer.models import Job, Project


class JobRefused(Worded):
    """A job cannot be started. Its words tell why, and what to do."""


def launch(job: Job) -> RunnerProcess | None:
    """Claim the job and start its child. None where another has it, it was cancelled, or it cannot start.

    A job that cannot start fails with the reason: it has cost nothing, and a person may start another.
    Callers hold the job's follower lock.
    """
    if not job.claim():
        return None
    try:
        project = runnable(job.project)
        prepare_folder(job)
        child = start_runner(job.folder, project, engine=engine_name(job.location))
        job.note_process(child.pid)
        return child
    except (JobRefused, OSError) as error:
        job.end(Job.Status.FAILED, why=start_error(error))
        # What it was to do holds what a person typed.
        clean_up(job, redactor_for(job))
        return None


def start_error(error: JobRefused | OSError) -> Words:
    """Why a child could not be started: in our words, or in the system's."""
    return error.words if isinstance(error, JobRefused) else Words(str(error))


def runnable(project: Project | None) -> Project:
    """The project, fit to run programs in. Raises JobRefused."""
    if project is None:
        raise JobRefused(_("This location has no project yet. Name its folder and interpreter first."))
    if not project.is_confirmed:
        message = _(
            "Nobody has confirmed yet that programs of “%(name)s” may run. Confirm the project first."
        )
        raise JobRefused(message, name=project.name)
    if not Path(project.folder).is_dir():
        raise JobRefused(_("The project's folder is not there: %(path)s."), path=project.folder)
    interpreter = Path(project.interpreter)
    if not (interpreter.is_absolute() and interpreter.is_file() and os.access(interpreter, os.X_OK)):
        message = _(
            "The project's interpreter is not there: %(path)s. Set up its environment, or name another."
        )
        raise JobRefused(message, path=project.interpreter)
    if project.environment_file and not Path(project.environment_file).is_file():
        raise JobRefused(
            _("The project's environment file is not there: %(path)s."), path=project.environment_file
        )
    try:
        file_values(project)
    except (OSError, ValueError):
        # Without the error's own words, which quote the file.
        message = _("The project's environment file cannot be read as text: %(path)s.")
        raise JobRefused(message, path=project.environment_file) from None
    if conflict := conflict_of(project):
        raise JobRefused(conflict.text, **conflict.values)
    return project


def prepare_folder(job: Job) -> None:
    """Write what the child is asked to do, for its owner's eyes alone. Raises JobRefused, OSError."""
    make_folder(job)
    write_private_file(job.folder / REQUEST, json.dumps(request_of(job)).encode())
    if is_stored(job.request):
        if job.checkpoint is None:
            raise JobRefused(_("The copy that is kept of this checkpoint is gone: its location was removed."))
        write_private_file(job.folder / STORED, stored_bytes(job.checkpoint))


def write_private_file(path: Path, data: bytes) -> None:
    """Write a file anew, for its owner's eyes alone. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)


def make_folder(job: Job) -> None:
    """The job's folder, for its owner's eyes alone."""
    make_private_folder(job.folder)


def make_private_folder(folder: Path) -> None:
    """Make a folder and the one that it is in, for the owner's eyes alone. Raises OSError."""
    folder.parent.mkdir(exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    for one in (folder.parent, folder):
        # What was there already, or was made under another umask.
        one.chmod(0o700)


def start_runner(
    folder: Path, project: Project, *, is_preflight: bool = False, engine: str = ""
) -> RunnerProcess:
    """Start this folder's child in a session of its own, holding its lock. Raises JobRefused, or OSError.

    A preflight check gets no real key.

    A process that waits for the project's jobs is forked; where none does, its interpreter is started.

    It starts in the project's folder, as the project's own run does: crews read their knowledge, write
    their files and find their memory relative to it, so that elsewhere a fork would not do what the run did.
    """
    engine = engine or engine_of_project(project)
    environment = runner_environment(folder, project, is_preflight=is_preflight)
    lock = locks.acquire(folder / LOCK)
    if lock is None:
        raise JobRefused(_("A child of this job is already there."))
    log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        forked = client.fork_runner(folder, project, engine, environment, lock, log)
        if forked is not None:
            return forked
        client.request_prewarm(project, client.SECONDS_AFTER_A_COLD_START)
        return subprocess.Popen(
            [project.interpreter, str(runner_program(engine)), str(folder)],
            cwd=project.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            umask=settings.USERS_UMASK,
            pass_fds=(lock,),
        )
    finally:
        os.close(log)
        os.close(lock)
