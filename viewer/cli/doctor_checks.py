"""The checks of ``checkpoints doctor``. Each returns findings, and changes no checkpoint."""

import os
import platform
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import django
from django.conf import settings
from django.utils.translation import gettext as _

from viewer.data_folder import DataFolderFailure, failure_text
from viewer.data_folder.copies import refuse_damaged
from viewer.data_folder.failures import database_path
from viewer.data_folder.inspection import inspect, opened_to_read, refuse_newer
from viewer.data_folder.permissions import restrict
from viewer.engines import all_engines
from viewer.jobs import workers
from viewer.jobs.execution.following.orphans import end_orphan_processes, finish_orphans
from viewer.jobs.execution.starting.start import JobRefused, runnable
from viewer.messages.translation import translate
from viewer.models import Job, Project
from viewer.projects.proposing import engine_version, python_version

State = Literal["ok", "warning", "error"]
SPACE_ERROR, SPACE_WARNING = 100 * 1024**2, 1024**3


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. ``state`` decides the exit status."""

    check: str
    state: State
    text: str


def of_versions() -> Iterator[Finding]:
    """Report the versions."""
    text = _("Forkline %(own)s, Python %(python)s, SQLite %(sqlite)s, Django %(django)s")
    values = {
        "own": settings.VERSION,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "django": django.get_version(),
    }
    yield Finding("versions", "ok", text % values)
    if os.geteuid() == 0:
        yield Finding("user", "warning", _("This runs as root, and so do the programs of projects."))


def of_permissions() -> Iterator[Finding]:
    """Restrict the data folder to its owner and report what was open."""
    found = restrict(settings.DATA_DIR, thorough=True)
    if found.paths:
        text = _("%(count)d files and folders were open to other users; now only their owner can read them.")
        yield Finding("permissions", "warning", text % {"count": len(found.paths)})
    for name in found.left:
        text = _("%(path)s is open to other users. This was not changed.")
        yield Finding("permissions", "warning", text % {"path": settings.DATA_DIR / name})
    if not found.paths and not found.left:
        yield Finding("permissions", "ok", _("Only their owner can read the files of the data folder."))


def of_space() -> Iterator[Finding]:
    """Report the free disk space."""
    free = shutil.disk_usage(settings.DATA_DIR).free
    state: State = "error" if free < SPACE_ERROR else "warning" if free < SPACE_WARNING else "ok"
    text = _("%(free)s MB are free on the disk of %(path)s.")
    yield Finding("space", state, text % {"free": f"{free // 1024**2:,}", "path": settings.DATA_DIR})


def of_database() -> Iterator[Finding]:
    """Check the database. After an error here, no check that reads rows can run."""
    path = database_path()
    try:
        found = inspect(path)
        refuse_newer(path, found)
        if found.is_new:
            text = _("There is no database in %(path)s yet.")
            yield Finding("database", "error", text % {"path": path.parent})
            return
        with opened_to_read(path) as database:
            refuse_damaged(database, path)
    except (sqlite3.Error, DataFolderFailure) as error:
        yield Finding("database", "error", failure_text(error) or f"{path}: {error}")
        return
    yield Finding("database", "ok", _("%(path)s is not damaged.") % {"path": path})


def of_jobs() -> Iterator[Finding]:
    """Check the jobs, and end those whose process was killed."""
    for job in finish_orphans():
        text = _("Job %(job)s was left by a process that was killed: it was ended as %(status)s.")
        yield Finding("jobs", "warning", text % {"job": job.pk, "status": job.get_status_display()})
    for job in end_orphan_processes():
        text = _("Processes of job %(job)s still ran after its end: they were stopped.")
        yield Finding("processes", "warning", text % {"job": job.pk})
    under_way, queued = Job.objects.under_way().count(), Job.objects.queued().count()
    text = _("%(under_way)d jobs under way, %(queued)d queued")
    yield Finding("jobs", "ok", text % {"under_way": under_way, "queued": queued})
    if workers.worker_is_up():
        yield Finding("worker", "ok", _("A worker is running."))
    else:
        state: State = "warning" if queued or under_way else "ok"
        yield Finding("worker", state, _("No worker is running, so no job starts."))


def of_projects() -> Iterator[Finding]:
    """Report projects that cannot run."""
    for project in Project.objects.order_by("pk"):
        interpreter = Path(project.interpreter)
        try:
            if project.is_confirmed:
                runnable(project)
        except JobRefused as refused:
            yield Finding("projects", "warning", f"{project.folder}: {translate(refused)}")
            continue
        found = [(one.title, engine_version(interpreter, one.name)) for one in all_engines()]
        engines = ", ".join(f"{title} {version}" for title, version in found if version)
        values = {"python": python_version(interpreter) or "?", "engines": engines or _("no engine")}
        text = _("%(folder)s: Python %(python)s, %(engines)s")
        yield Finding("projects", "ok", text % {"folder": project.folder, **values})


def of_roots() -> Iterator[Finding]:
    """Report allowed folders that cannot be read."""
    for root in settings.CHECKPOINT_ROOTS:
        is_there = root.is_dir() and os.access(root, os.R_OK | os.X_OK)
        text = _("%(path)s is allowed.") if is_there else _("%(path)s cannot be read.")
        yield Finding("roots", "ok" if is_there else "warning", text % {"path": root})
