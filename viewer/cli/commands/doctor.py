"""``forkline doctor``, and what it checks."""

import errno
import os
import platform
import shlex
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import django
from django.conf import settings
from django.core.management.base import CommandParser
from django.db import DatabaseError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer import postgresql
from viewer.cli import Output, Subcommand
from viewer.data_folder import database_server, locks, prepare_data_folder
from viewer.data_folder.database_file import refuse_damaged
from viewer.data_folder.failures import DataFolderFailure, database_path, failure_text
from viewer.data_folder.migrating import inspect, opened_to_read, refuse_other_versions
from viewer.data_folder.permissions import restrict
from viewer.engines import all_engines
from viewer.formats import count_text, short_size
from viewer.host.jobs.environment import runnable
from viewer.host.jobs.following import finish_orphans
from viewer.host.jobs.processes import end_orphan_processes
from viewer.host.jobs.sandbox import isolation_for, launchers
from viewer.host.locations.finding import find_stores
from viewer.host.projects import engine_version, python_version
from viewer.host_requests import JobRefused
from viewer.messages.translation import translate
from viewer.models import BucketObject, Job, Project
from viewer.postgresql import notifications_arrive
from viewer.presentation.hosts import LAUNCHER_LABELS, away_text, shown_hosts
from viewer.records import bucket
from viewer.records.isolation import ALLOWED_HOSTS
from viewer.records.prices import read_price_file

# The checks of ``checkpoints doctor``. Each returns findings, and changes no checkpoint.


CheckState = Literal["ok", "warning", "error"]
SPACE_ERROR, SPACE_WARNING = 100 * 1024**2, 1024**3


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the report. ``state`` decides the exit status."""

    check: str
    state: CheckState
    text: str


def of_versions() -> Iterator[CheckResult]:
    """Report the versions."""
    text = _("Forkline %(forkline)s, Python %(python)s, SQLite %(sqlite)s, Django %(django)s")
    values = {
        "forkline": settings.VERSION,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "django": django.get_version(),
    }
    yield CheckResult("versions", "ok", text % values)
    if os.geteuid() == 0:
        yield CheckResult("user", "warning", _("This runs as root, and so do the programs of projects."))


def of_permissions() -> Iterator[CheckResult]:
    """Restrict the data folder to its owner and report what was open."""
    found = restrict(settings.DATA_DIR, thorough=True)
    if found.paths:
        count = len(found.paths)
        text = ngettext(
            "%(count)s file or folder was open to other users; now only its owner can read it.",
            "%(count)s files and folders were open to other users; now only their owner can read them.",
            count,
        )
        yield CheckResult("permissions", "warning", text % {"count": count_text(count)})
    for name in found.left:
        text = _("%(path)s is open to other users. This was not changed.")
        yield CheckResult("permissions", "warning", text % {"path": settings.DATA_DIR / name})
    if not found.paths and not found.left:
        yield CheckResult("permissions", "ok", _("Only their owner can read the files of the data folder."))


def of_space() -> Iterator[CheckResult]:
    """Report the free disk space."""
    free = shutil.disk_usage(settings.DATA_DIR).free
    state: CheckState = "error" if free < SPACE_ERROR else "warning" if free < SPACE_WARNING else "ok"
    text = _("%(free)s are free on the disk of %(path)s.")
    yield CheckResult("space", state, text % {"free": short_size(free), "path": settings.DATA_DIR})


def of_prices() -> Iterator[CheckResult]:
    """Report a file of prices, and why it cannot be used."""
    if (path := settings.PRICES_FILE) is None:
        return
    file = read_price_file(path)
    if file.fault:
        text = _("The prices in %(path)s are not used: %(reason)s")
        yield CheckResult("prices", "warning", text % {"path": path, "reason": file.fault})
    else:
        text = ngettext("%(path)s has %(count)s price.", "%(path)s has %(count)s prices.", len(file.prices))
        yield CheckResult("prices", "ok", text % {"path": path, "count": count_text(len(file.prices))})


def of_audit_file() -> Iterator[CheckResult]:
    """Report whether entries of the audit trail can be appended to the file that is set for them."""
    if not settings.AUDIT or (path := settings.AUDIT_FILE) is None:
        return
    try:
        if path.exists():
            path.open("ab").close()
        elif not os.access(path.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        text = _("Entries of the audit trail are not appended to %(path)s: %(reason)s")
        yield CheckResult("audit", "warning", text % {"path": path, "reason": error.strerror})
    else:
        text = _("Entries of the audit trail are appended to %(path)s.")
        yield CheckResult("audit", "ok", text % {"path": path})


def of_database() -> Iterator[CheckResult]:
    """Check the database. After an error here, no check that reads rows can run."""
    if postgresql.is_used():
        yield _of_server()
        return
    path = database_path()
    try:
        found = inspect(path)
        refuse_other_versions(path, found)
        if found.is_new:
            text = _("There is no database in %(path)s yet.")
            yield CheckResult("database", "error", text % {"path": path.parent})
            return
        with opened_to_read(path) as database:
            refuse_damaged(database, path)
    except (sqlite3.Error, DataFolderFailure) as error:
        yield CheckResult("database", "error", failure_text(error) or f"{path}: {error}")
        return
    yield CheckResult("database", "ok", _("%(path)s is not damaged.") % {"path": path})


def _of_server() -> CheckResult:
    """Check the connection, the server's version, the encoding of the database and its tables."""
    name = postgresql.server_name()
    try:
        version, encoding = database_server.server_facts()
        database_server.refuse_server(version, encoding)
        refuse_other_versions(name, database_server.inspect())
        database_server.refuse_read_only()
    except (DatabaseError, DataFolderFailure) as error:
        return CheckResult("database", "error", failure_text(error) or f"{name}: {error}")
    text = _("%(database)s answers: PostgreSQL %(version)s, %(encoding)s.")
    values = {"database": name, "version": version, "encoding": encoding}
    return CheckResult("database", "ok", text % values)


def of_notifications() -> Iterator[CheckResult]:
    """Check that PostgreSQL's notifications arrive. A database of SQLite has none."""
    if not postgresql.is_used():
        return
    try:
        arrive = notifications_arrive()
    except DatabaseError as error:
        yield CheckResult("notifications", "error", failure_text(error) or str(error))
        return
    text = _("PostgreSQL's notifications arrive.")
    if not arrive:
        text = _(
            "PostgreSQL's notifications do not arrive, so each process asks the server four times a second."
            " Behind a pooler of connections, set DATABASE_DIRECT_URL to the address of the server itself."
        )
    yield CheckResult("notifications", "ok" if arrive else "warning", text)


def of_jobs() -> Iterator[CheckResult]:
    """Check the jobs, and end those whose process was killed."""
    for job in finish_orphans():
        text = _("Job %(job)s was left by a process that was killed: it was ended as %(status)s.")
        yield CheckResult("jobs", "warning", text % {"job": job.pk, "status": job.get_status_display()})
    for job in end_orphan_processes():
        text = _("Processes of job %(job)s still ran after its end: they were stopped.")
        yield CheckResult("processes", "warning", text % {"job": job.pk})
    under_way, queued = Job.objects.under_way().count(), Job.objects.queued().count()
    yield CheckResult("jobs", "ok", _counted(under_way, queued))
    if locks.worker_is_up():
        yield CheckResult("worker", "ok", _("A worker is running."))
    else:
        state: CheckState = "warning" if queued or under_way else "ok"
        yield CheckResult("worker", state, _("No worker is running, so no job starts."))


def _counted(under_way: int, queued: int) -> str:
    running = ngettext("%(count)s job under way", "%(count)s jobs under way", under_way)
    waiting = ngettext("%(count)s job queued", "%(count)s jobs queued", queued)
    return _("%(under_way)s, %(queued)s") % {
        "under_way": running % {"count": count_text(under_way)},
        "queued": waiting % {"count": count_text(queued)},
    }


def of_launchers() -> Iterator[CheckResult]:
    """Report which launchers of runs work here and whether runs can be limited to hosts, or why not."""
    found = dict(launchers())
    hosts_reason = found.pop(ALLOWED_HOSTS)
    for name, reason in found.items():
        if name != "process":
            text = _("%(name)s works.") if not reason else _("%(name)s does not work: %(reason)s")
            yield CheckResult("launchers", "ok", text % {"name": LAUNCHER_LABELS[name], "reason": reason})
    text = _("Runs can be limited to allowed hosts.")
    if hosts_reason:
        text = _("Runs cannot be limited to allowed hosts on this host: %(reason)s") % {
            "reason": hosts_reason
        }
    yield CheckResult("launchers", "ok", text)


def of_projects() -> Iterator[CheckResult]:
    """Report projects that cannot run."""
    for project in Project.objects.here().order_by("pk"):
        interpreter = Path(project.interpreter)
        try:
            if project.is_confirmed:
                isolation_for(runnable(project))
        except JobRefused as refused:
            yield CheckResult("projects", "warning", f"{project.folder}: {translate(refused)}")
            continue
        found = [(one.title, engine_version(interpreter, one.name)) for one in all_engines()]
        engines = ", ".join(f"{title} {version}" for title, version in found if version)
        values = {"python": python_version(interpreter) or "?", "engines": engines or _("no engine")}
        text = _("%(folder)s: Python %(python)s, %(engines)s")
        yield CheckResult("projects", "ok", text % {"folder": project.folder, **values})


def of_hosts() -> Iterator[CheckResult]:
    """Report hosts whose clock or version differs, and those that are away while jobs wait for them."""
    for shown in shown_hosts():
        name = shown.host.name
        yield from (CheckResult("hosts", "warning", f"{name}: {sentence}") for sentence in shown.warnings)
        if not shown.answers and (shown.running or shown.queued):
            text = _("%(host)s: its jobs wait until it is back.")
            yield CheckResult("hosts", "warning", text % {"host": away_text(shown.host)})


def of_bucket() -> Iterator[CheckResult]:
    """Write to the bucket, compare it with the rows, and delete what processes that were killed have left."""
    if not bucket.is_used():
        if count := BucketObject.objects.count():
            text = _("BUCKET_URL is not set. Stored copies in the bucket: %(count)s")
            yield CheckResult("bucket", "error", text % {"count": count_text(count)})
        return
    try:
        bucket.check_writable()
        bucket.release_unnamed()
        deleted = bucket.delete_unused()
        named, missing, others = bucket.compare()
    except bucket.BucketAway as away:
        yield CheckResult("bucket", "error", translate(away))
        return
    if deleted:
        text = _("Objects that no stored copy needs, which were deleted: %(count)s")
        yield CheckResult("bucket", "warning", text % {"count": count_text(deleted)})
    if missing:
        text = _("Missing objects, whose checkpoints have no stored copy: %(count)s")
        yield CheckResult("bucket", "error", text % {"count": count_text(missing)})
    if others:
        text = _("Objects of no stored copy, such as of another database: %(count)s. Nothing was deleted.")
        yield CheckResult("bucket", "warning", text % {"count": count_text(others)})
    if not (missing or others):
        text = _("Stored copies in %(bucket)s: %(count)s")
        yield CheckResult("bucket", "ok", text % {"bucket": settings.BUCKET_URL, "count": count_text(named)})


def of_roots() -> Iterator[CheckResult]:
    """Report allowed folders that cannot be read."""
    for root in settings.CHECKPOINT_ROOTS:
        is_there = root.is_dir() and os.access(root, os.R_OK | os.X_OK)
        text = _("%(path)s is allowed.") if is_there else _("%(path)s cannot be read.")
        yield CheckResult("roots", "ok" if is_there else "warning", text % {"path": root})


def of_stores() -> Iterator[CheckResult]:
    """Report stores of known programs that are not locations yet."""
    for store in find_stores(settings.CHECKPOINT_ROOTS):
        if not store.name:
            continue
        if store.is_readable:
            text = _("%(name)s: %(path)s. To add it: forkline import %(argument)s")
        else:
            text = _(
                "%(name)s: %(path)s has pickle files, which Forkline never loads. The page Locations shows "
                "how to store threads in a database instead."
            )
        values = {"name": _(store.name), "path": store.path, "argument": shlex.quote(store.path)}
        yield CheckResult("stores", "ok", text % values)


# ``manage.py checkpoints doctor``.


STATUS = {"ok": 0, "warning": 1, "error": 2}
SIGNS = {"ok": "✓", "warning": "!", "error": "✗"}


def _add_doctor_arguments(parser: CommandParser) -> None:
    """Add no arguments."""


def _handle_doctor(options: Mapping[str, Any]) -> Output:
    """The findings. The exit status is 0 without problems, 1 for warnings and 2 for errors."""
    found = [
        *of_versions(),
        *of_permissions(),
        *of_space(),
        *of_roots(),
        *of_launchers(),
        *of_prices(),
        *of_audit_file(),
    ]
    database = list(of_database())
    found += database
    if all(one.state == "ok" for one in database):
        prepare_data_folder()
        found += [*of_notifications(), *of_jobs(), *of_projects(), *of_hosts(), *of_stores(), *of_bucket()]
    worst = max((one.state for one in found), key=lambda state: STATUS[state])
    endings = {
        "ok": _("No problems found."),
        "warning": _("There are warnings."),
        "error": _("There are errors."),
    }
    lines = [f"{SIGNS[one.state]} {one.check}: {one.text}" for one in found]
    findings = [{"check": one.check, "state": one.state, "text": one.text} for one in found]
    document = {"state": worst, "findings": findings}
    return Output(document, [*lines, endings[worst]], status=STATUS[worst])


# It reports a database that cannot be used.
DOCTOR = Subcommand(
    gettext_lazy("Check the data folder, jobs and projects, and end jobs whose processes are gone."),
    _add_doctor_arguments,
    _handle_doctor,
    makes_ready=False,
)
