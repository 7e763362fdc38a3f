"""``forkline backup``, ``restore``, ``move``, ``clean``, ``prune`` and ``remove``: stored data."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError, connection, transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from viewer import host_requests
from viewer.cli import ADDRESS, LOCATION, NEW_FILE, READ_FILE, Output, Subcommand
from viewer.cli.finding import imported_location, known_location, typed_path
from viewer.data_folder.database_file import copy_database, restore
from viewer.data_folder.database_server import refuse_copies
from viewer.data_folder.failures import DataFolderFailure, database_path
from viewer.data_folder.moving import Moved, move
from viewer.databases import parameters_in, postgresql_database, sqlite_database
from viewer.formats import count_text, short_size
from viewer.host.jobs.files import has_any_runner
from viewer.host.jobs.retention import MIN_DAYS, compact, old_data, remove, sizes
from viewer.host_requests import ask
from viewer.messages.translation import translate
from viewer.models import Location, Project
from viewer.presentation.listing import deleted_texts
from viewer.records.audit import Action, Audited, Result, is_at_terminal, record
from viewer.records.locations import is_indexed
from viewer.stores import shown_path
from viewer.validation import MAX_DAYS, NAME, number_option, path

# The audit trail of what was done to the database itself.


def _record(action: Action, detail: str, result: Result = Result.DONE) -> None:
    """Store an entry, unless the database is damaged, of an earlier version or retired."""
    if not settings.AUDIT:
        return
    with suppress(DatabaseError, DataFolderFailure), transaction.atomic():
        record(action, Audited.DATABASE, detail=detail, result=result)
    connection.close()


# ``manage.py checkpoints backup``.


def _add_backup_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "file", type=NEW_FILE, metavar="FILE", help=_("The copy to write. It must not exist yet.")
    )


def _handle_backup(options: Mapping[str, Any]) -> Output:
    """The path and size of the copy. Raises CommandError and DataFolderFailure."""
    refuse_copies()
    if options["file"] == "-":
        raise CommandError(_("A backup cannot be written to standard output. Name a file."))
    copy, database = Path(options["file"]).expanduser().absolute(), database_path()
    if not database.exists():
        raise DataFolderFailure(_("There is no database in %(path)s.") % {"path": database.parent})
    _record(Action.EXPORTED, f"backup {copy}")
    copy_database(database, copy)
    size = copy.stat().st_size
    text = _("The database was copied to %(path)s (%(size)s).")
    return Output({"path": str(copy), "size": size}, [text % {"path": copy, "size": short_size(size)}])


# It copies the database as it is, without preparing the data folder.
BACKUP = Subcommand(
    gettext_lazy("Copy the database to one file, also while Forkline is running."),
    _add_backup_arguments,
    _handle_backup,
    makes_ready=False,
)


# ``manage.py checkpoints restore``.


def _add_restore_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "file", type=READ_FILE, metavar="FILE", help=_("A copy that “backup” or an upgrade created.")
    )


def _handle_restore(options: Mapping[str, Any]) -> Output:
    """The restored copy, and the path of the replaced database. Raises DataFolderFailure."""
    refuse_copies()
    copy, folder = Path(options["file"]).expanduser().absolute(), Path(settings.DATA_DIR)
    replaced = restore(copy, folder, partial(has_any_runner, folder))
    _record(Action.CHANGED, f"restored {copy}")
    lines = [_("Restored %(path)s. All users have to log in again.") % {"path": copy}]
    if replaced:
        lines.append(_("The replaced database is kept at %(path)s.") % {"path": replaced})
    lines.append(_("Jobs that had not finished when it was copied are interrupted. Start them manually."))
    return Output({"path": str(copy), "replaced": str(replaced) if replaced else None}, lines)


# The database may be damaged.
RESTORE = Subcommand(
    gettext_lazy("Replace the database with a copy, while Forkline is stopped."),
    _add_restore_arguments,
    _handle_restore,
    makes_ready=False,
)


# ``manage.py checkpoints move``.


SQLITE = "sqlite"


def _add_move_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--to",
        type=ADDRESS,
        required=True,
        metavar="DATABASE",
        help=_("An empty PostgreSQL database, postgresql://USER@HOST/NAME; or sqlite, for the data folder."),
    )


def _handle_move(options: Mapping[str, Any]) -> Output:
    """The number of rows of each table. Raises CommandError and DataFolderFailure."""
    if options["to"] == SQLITE:
        moved = _moved("SQLite", sqlite_database(settings.DATA_DIR), "")
        start = _("Start Forkline without DATABASE_URL.")
    else:
        try:
            database = postgresql_database(parameters_in(options["to"]), has_pooler=False)
        except ValueError as error:
            raise CommandError(f"--to {error}") from None
        _permit_paths()
        moved = _moved("PostgreSQL", database, options["to"])
        start = _("Start Forkline with DATABASE_URL set to this database.")
    text = _("Moved %(rows)s rows of %(tables)s tables, and compared them.")
    rows = count_text(sum(moved.rows.values()))
    lines = [text % {"rows": rows, "tables": count_text(len(moved.rows))}, start]
    if moved.kept:
        lines.append(_("The former database is kept at %(path)s.") % {"path": moved.kept})
    document = {"rows": moved.rows, "kept": str(moved.kept) if moved.kept else None}
    return Output(document, lines)


def _permit_paths() -> None:
    """Let this machine open the paths of its rows also once other machines can write rows.

    So far, only it has. A retired database has none any more: the move that retired it has permitted them.
    """
    if settings.IS_DATABASE_SHARED:
        return
    with suppress(DatabaseError):
        locations = Location.objects.exclude(store_kind__in=Location.WITHOUT_PATH).values_list("path")
        projects = Project.objects.values_list("folder", "interpreter", "environment_file")
        ask(host_requests.PermitPaths([path for row in (*locations, *projects) for path in row]))
    connection.close()


def _moved(kind: str, database: Mapping[str, Any], address: str) -> Moved:
    """Move all rows, with an entry of the audit trail among them. Raises DataFolderFailure."""
    _record(Action.CHANGED, f"moved to {kind}")
    try:
        return move(database, {"DATABASE_URL": address, "DATABASE_DIRECT_URL": ""})
    except DataFolderFailure:
        _record(Action.CHANGED, f"moved to {kind}", Result.NOT_DONE)
        raise


# A retired database is never made ready again, but the move that retired it may have to be completed.
MOVE = Subcommand(
    gettext_lazy("Move all rows to PostgreSQL, or back to SQLite, while Forkline is stopped."),
    _add_move_arguments,
    _handle_move,
    makes_ready=False,
)


# ``manage.py checkpoints clean``.


def _add_clean_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--events",
        type=number_option(MIN_DAYS, MAX_DAYS),
        metavar="DAYS",
        help=_("Remove the events of jobs that ended at least this many days ago; at least 2."),
    )
    parser.add_argument(
        "--jobs",
        type=number_option(MIN_DAYS, MAX_DAYS),
        metavar="DAYS",
        help=_(
            "Remove jobs that ended at least this many days ago without a checkpoint and did not succeed;"
            " at least 2."
        ),
    )
    parser.add_argument("--compact", action="store_true", help=_("Return unused space to the disk."))
    parser.add_argument("--dry-run", action="store_true", help=_("Only count what would be removed."))


def _handle_clean(options: Mapping[str, Any]) -> Output:
    """Remove what is old, and show the sizes of what is stored then. Raises CommandError."""
    old = old_data(options["events"], options["jobs"])
    if options["dry_run"]:
        events, jobs = old.events.count(), old.jobs.count()
    else:
        events, jobs = remove(old)
        if options["compact"] and not compact():
            raise CommandError(_("The database is in use or the disk is full. Nothing was compacted."))
    stored = list(sizes())
    document = {
        "dry_run": options["dry_run"],
        "events": events,
        "jobs": jobs,
        "stored": [{"label": one.label, "count": one.count, "bytes": one.size} for one in stored],
    }
    return Output(document, list(_clean_lines(document)))


def _clean_lines(document: Mapping[str, Any]) -> Iterator[str]:
    events, jobs = document["events"], document["jobs"]
    removed = {
        "events": ngettext("%(count)s event", "%(count)s events", events) % {"count": count_text(events)},
        "jobs": ngettext("%(count)s job", "%(count)s jobs", jobs) % {"count": count_text(jobs)},
    }
    if document["dry_run"]:
        yield _("Would remove %(events)s and %(jobs)s.") % removed
    else:
        yield _("Removed %(events)s and %(jobs)s.") % removed
    for one in document["stored"]:
        count = "" if one["count"] is None else f"{count_text(one['count'])}, "
        yield f"{one['label']}: {count}{short_size(one['bytes'])}"


CLEAN = Subcommand(
    gettext_lazy("Show what Forkline stores, and remove its own old data. Locations are never touched."),
    _add_clean_arguments,
    _handle_clean,
)


# ``manage.py checkpoints prune``.


def _add_prune_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "location", type=LOCATION, metavar="LOCATION", help=_("A folder or a database of checkpoints.")
    )
    parser.add_argument(
        "--days",
        type=number_option(0, MAX_DAYS),
        metavar="N",
        help=_("Only those that are at least N days old."),
    )
    parser.add_argument(
        "--latest",
        type=number_option(1, host_requests.MAX_PRUNE_LATEST),
        metavar="N",
        help=_("Keep the newest N of each branch."),
    )
    parser.add_argument("--branch", type=NAME, help=_("Only those of this branch."))
    parser.add_argument("--thread", type=NAME, help=_("Only those of this thread of LangGraph."))
    parser.add_argument(
        "--whole-threads",
        action="store_true",
        help=_("Delete threads of LangGraph whose newest checkpoint matches, not single checkpoints."),
    )
    parser.add_argument(
        "--delete-copies",
        action="store_true",
        help=_("Delete the stored copies too, also those of matching checkpoints that were pruned before."),
    )
    parser.add_argument("--dry-run", action="store_true", help=_("Only list, even with --confirm."))
    parser.add_argument(
        "--confirm",
        type=NAME,
        metavar="DIGEST",
        help=_("Delete the list with this digest, which was printed with it. Another list is refused."),
    )


def _handle_prune(options: Mapping[str, Any]) -> Output:
    """List what would be deleted, or delete the confirmed list. Raises CommandError."""
    rules = host_requests.PruneRules(
        options["days"],
        options["latest"],
        options["branch"] or "",
        options["delete_copies"],
        options["thread"] or "",
        options["whole_threads"],
    )
    if rules.is_empty:
        raise CommandError(_("Choose an age, a number, a branch or a thread."))
    location = imported_location(options["location"])
    try:
        if options["confirm"] and not options["dry_run"]:
            return _prune_deleted(location, ask(host_requests.Prune(location.pk, rules, options["confirm"])))
        return _prune_listed(location, ask(host_requests.ListPrunable(location.pk, rules)))
    except host_requests.PruneRefused as error:
        raise CommandError(translate(error)) from None


def _prune_listed(location: Location, plan: host_requests.PruneList) -> Output:
    document = {
        "location": location.path,
        "digest": plan.digest,
        "checkpoints": plan.rows,
        "threads": [
            {"thread": one.name, "checkpoints": one.checkpoints, "bytes": one.size} for one in plan.threads
        ],
        "bytes": plan.size,
        "delete_copies": plan.deletes_copies,
        "copies_of_pruned": plan.pruned,
        "protected": plan.protected,
    }
    return Output(document, list(_prune_lines(location, plan)))


def _prune_lines(location: Location, plan: host_requests.PruneList) -> Iterator[str]:
    for one in plan.threads:
        text = ngettext(
            "%(name)s: %(count)s checkpoint, %(size)s",
            "%(name)s: %(count)s checkpoints, %(size)s",
            one.checkpoints,
        )
        counted = {"count": count_text(one.checkpoints), "size": short_size(one.size)}
        yield text % {"name": one.name, **counted}
    if not plan.threads:
        yield from plan.rows
    for key in plan.pruned:
        yield _("%(key)s (no longer at its source; its stored copy)") % {"key": key}
    count = len(plan.rows)
    text = ngettext(
        "%(count)s checkpoint would be deleted, %(size)s",
        "%(count)s checkpoints would be deleted, %(size)s",
        count,
    )
    yield text % {"count": count_text(count), "size": short_size(plan.size)}
    if plan.rows and is_indexed(location) and location.takes_runs:
        yield _(
            "The database uses the freed space for new checkpoints. To return it to the disk, run VACUUM in "
            "SQLite, or VACUUM FULL in PostgreSQL."
        )
    if plan.deletes_copies:
        copies = ngettext(
            "%(count)s stored copy would be deleted.",
            "%(count)s stored copies would be deleted.",
            plan.listed,
        )
        yield copies % {"count": count_text(plan.listed)}
    for reason, number in plan.protected.items():
        yield _("protected: %(count)s (%(reason)s)") % {
            "count": count_text(number),
            "reason": reason.replace("_", " "),
        }
    if plan.listed:
        yield _("To delete exactly these, repeat the command with --confirm %s") % plan.digest


def _prune_deleted(location: Location, done: host_requests.Pruned) -> Output:
    kept = {one.key: translate(one.reason) for one in done.kept}
    lines = deleted_texts(location, done)
    not_deleted = _("Not deleted: %(key)s. %(reason)s")
    lines += [not_deleted % {"key": key, "reason": why} for key, why in kept.items()]
    document = {
        "location": location.path,
        "deleted": len(done.deleted),
        "copies_deleted": done.copies,
        "kept": kept,
    }
    return Output(document, lines, status=int(bool(kept)))


PRUNE = Subcommand(
    gettext_lazy(
        "Delete checkpoints at their source by age, number, branch or thread. Without --confirm, only list "
        "them."
    ),
    _add_prune_arguments,
    _handle_prune,
)


# ``manage.py checkpoints remove``.


def _add_remove_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "location", type=LOCATION, metavar="LOCATION", help=_("A location, as the list of locations has it.")
    )


def _handle_remove(options: Mapping[str, Any]) -> Output:
    """The removed location. Raises CommandError if it is not known, or if something would be lost."""
    location = _listed_location(options["location"])
    try:
        ask(host_requests.RemoveLocation(location.pk))
    except host_requests.WouldBeLost as refused:
        raise CommandError(f"{location.path}: {refused}") from None
    line = _("Removed %(path)s.") % {"path": location.path}
    return Output({"location": location.path, "removed": True}, [line])


def _listed_location(text: str) -> Location:
    """The location with this path, which need not exist any more. Raises CommandError."""
    if not is_at_terminal():
        return known_location(text)
    typed = typed_path(text)
    # A location is listed with all links followed.
    paths = [text, str(path(str(typed))), os.path.realpath(path(str(typed)))]
    found = Location.objects.here().filter(path__in=paths).first()
    if found is None:
        raise CommandError(_("%s is not a location.") % shown_path(text))
    return found


REMOVE = Subcommand(
    gettext_lazy(
        "Remove a location from the list, with what Forkline stored of it. Nothing at the location is "
        "changed."
    ),
    _add_remove_arguments,
    _handle_remove,
)
